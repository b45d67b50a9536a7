"""How commands are called: their words and options, and nothing that takes time to import.

What a command does is in the module of the same name one floor up, which `Lazy` imports when the command runs.
"""
