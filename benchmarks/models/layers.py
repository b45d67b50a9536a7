"""Layers of transformers as torch exports them: MLIR for IREE by iree-turbine, ONNX for other libraries.

    pip install torch onnxscript iree-turbine
    python -m benchmarks.models.layers FOLDER [--tokens 1024] [--layers 1]

An encoder layer (norm after, gelu) and a decoder layer (norm before, causal, gated by silu): f16, width 1024, seeded.
FOLDER/encoder_layer.mlir and .onnx, FOLDER/decoder_layer.mlir and .onnx. More layers come one behind another, each with
weights of its own, in encoder_layers and decoder_layers. Then:

    autotune model encoder_layer.mlir --target sm_80 --microkernels auto --budget 100s
    autotune bench encoder_layer.mlir --onnx encoder_layer.onnx --backends iree,tuned,torch --target sm_80
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

WIDTH = 1024


def layers(torch: Any, count: int = 1) -> dict[str, Any]:
    """A module of each kind, of so many layers; their classes need torch to be there."""
    nn, functional = torch.nn, torch.nn.functional

    class Attention(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, heads: int, *, causal: bool) -> None:
            super().__init__()
            self.heads, self.causal = heads, causal
            self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH, bias=not causal) for _ in range(4))

        def forward(self, x: Any) -> Any:
            batch, tokens, _ = x.shape
            shape = (batch, tokens, self.heads, WIDTH // self.heads)
            operands = (part(x).view(shape).transpose(1, 2) for part in (self.query, self.key, self.value))
            attended = functional.scaled_dot_product_attention(*operands, is_causal=self.causal)
            return self.out(attended.transpose(1, 2).reshape(batch, tokens, WIDTH))

    class Encoder(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, hidden: int = 4096) -> None:
            super().__init__()
            self.attention = Attention(16, causal=False)
            self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.up, self.down = nn.Linear(WIDTH, hidden), nn.Linear(hidden, WIDTH)

        def forward(self, x: Any) -> Any:
            x = self.first(x + self.attention(x))
            return self.second(x + self.down(functional.gelu(self.up(x))))

    class Decoder(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, hidden: int = 2816) -> None:
            super().__init__()
            self.attention = Attention(8, causal=True)
            self.first, self.second = nn.RMSNorm(WIDTH, eps=1e-5), nn.RMSNorm(WIDTH, eps=1e-5)
            self.gate, self.up = nn.Linear(WIDTH, hidden, bias=False), nn.Linear(WIDTH, hidden, bias=False)
            self.down = nn.Linear(hidden, WIDTH, bias=False)

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.first(x))
            y = self.second(x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    torch.manual_seed(0)
    if count == 1:
        return {"encoder_layer": Encoder(), "decoder_layer": Decoder()}
    kinds = {"encoder_layers": Encoder, "decoder_layers": Decoder}
    return {name: nn.Sequential(*(kind() for _ in range(count))) for name, kind in kinds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=1)
    given = parser.parse_args()
    torch, aot = import_module("torch"), import_module("iree.turbine.aot")
    given.folder.mkdir(parents=True, exist_ok=True)
    for name, layer in layers(torch, given.layers).items():
        module, x = layer.half().eval(), torch.randn(1, given.tokens, WIDTH).half()
        file = given.folder / name
        # From this version on ONNX has an operation for attention, which libraries compute as one.
        torch.onnx.export(module, (x,), f"{file}.onnx", opset_version=23, dynamo=True, external_data=False)
        aot.export(module, x).save_mlir(f"{file}.mlir")
        print(f"{file}.mlir, {file}.onnx")


if __name__ == "__main__":
    main()
