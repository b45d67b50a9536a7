// A configured executable. TARGET and OBJECTS are to be replaced.
module {
  hal.executable private @main_dispatch_0 {
    hal.executable.variant public @native target(<TARGET>) OBJECTS {
      hal.executable.export public @f ordinal(0) layout(#hal.pipeline.layout<bindings = [
          #hal.pipeline.binding<storage_buffer>]>) count(%d: !hal.device) -> (index, index, index) {
        %c = arith.constant 1 : index
        hal.return %c, %c, %c : index, index, index
      }
      builtin.module { func.func @f() { return } }
    }
  }
}
