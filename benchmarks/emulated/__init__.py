"""Code for AMD's chips executed on a processor, by an instruction emulator: is it right? Never how fast."""
