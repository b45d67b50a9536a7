"""Networks written here: decoders with a cache, experts, recurrent ones, diffusion, and others without a package."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.zoo.torch_net import Made

_DECODERS = {
    # Width, heads, heads of keys and values, hidden width, bias of queries, keys and values.
    "llama": (2048, 32, 8, 5632, False),
    "mistral": (2048, 16, 4, 7168, False),
    "qwen": (1536, 12, 2, 8960, True),
}


class Decoder(nn.Module):
    """A layer of a language model: rotated positions, grouped heads, gates; keys and values come from a cache."""

    def __init__(self, width: int, heads: int, kept: int, hidden: int, biased: bool) -> None:
        super().__init__()
        self.heads, self.kept, self.size = heads, kept, width // heads
        self.query = nn.Linear(width, width, bias=biased)
        self.key, self.value = (nn.Linear(width, kept * self.size, bias=biased) for _ in range(2))
        self.out = nn.Linear(width, width, bias=False)
        self.first, self.second = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Any, cosine: Any, sine: Any, keys: Any = None, values: Any = None) -> Any:
        batch, tokens, width = x.shape
        y = _scaled(x, self.first)
        query, key, value = (
            part(y).view(batch, tokens, heads, self.size).transpose(1, 2)
            for part, heads in ((self.query, self.heads), (self.key, self.kept), (self.value, self.kept))
        )
        query, key = _rotated(query, cosine, sine), _rotated(key, cosine, sine)
        if keys is not None:
            key, value = torch.cat((keys, key), 2), torch.cat((values, value), 2)
        each = self.heads // self.kept
        wide_key, wide_value = (
            one[:, :, None].expand(-1, -1, each, -1, -1).reshape(batch, self.heads, -1, self.size)
            for one in (key, value)
        )
        scores = query @ wide_key.transpose(2, 3) / math.sqrt(self.size)
        if tokens > 1:
            scores = scores + torch.full((tokens, tokens), -1e4, dtype=x.dtype, device=x.device).triu(1)
        attended = torch.softmax(scores.float(), -1).to(x.dtype) @ wide_value
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, width))
        y = _scaled(x, self.second)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y)), key, value


def _scaled(x: Any, weight: Any) -> Any:
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def _rotated(x: Any, cosine: Any, sine: Any) -> Any:
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat((-second, first), -1) * sine


def decoder(*, shape: str, tokens: int, cached: int = 0, any_cache: bool = False) -> Made:
    sizes = _DECODERS[shape]
    layer = Decoder(*sizes)
    angles = torch.rand(tokens, layer.size)
    inputs = [torch.randn(1, tokens, sizes[0]), angles.cos(), angles.sin()]
    if cached:
        inputs += [torch.randn(1, layer.kept, cached, layer.size) for _ in range(2)]
    return Made(layer, tuple(inputs), {3: {2: "cached"}, 4: {2: "cached"}} if any_cache else {})


class Experts(nn.Module):
    """Each token goes to the best two of eight experts; all are computed, and the others count nothing."""

    def __init__(self, width: int = 512, hidden: int = 1024, count: int = 8) -> None:
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        self.up = nn.Parameter(torch.randn(count, width, hidden) / math.sqrt(width))
        self.down = nn.Parameter(torch.randn(count, hidden, width) / math.sqrt(hidden))

    def forward(self, x: Any) -> Any:
        scores, chosen = torch.topk(torch.softmax(self.router(x), -1), 2, -1)
        weights = torch.zeros_like(self.router(x)).scatter(-1, chosen, scores)
        each = functional.gelu(x.unsqueeze(0) @ self.up) @ self.down
        return (each * weights.transpose(0, 1).unsqueeze(-1)).sum(0)


def experts() -> Made:
    return Made(Experts(), (torch.randn(64, 512),))


class First(nn.Module):
    """A recurrent network's sequence, without its last state."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Any) -> Any:
        return self.module(x)[0]


def lstm() -> Made:
    return Made(First(nn.LSTM(128, 256, 2, bidirectional=True)), (torch.randn(32, 1, 128),))


def gru() -> Made:
    return Made(First(nn.GRU(128, 256)), (torch.randn(32, 1, 128),), {0: {0: "tokens"}})


class Residual(nn.Module):
    """Group norms, convolutions, and what a step of the diffusion adds."""

    def __init__(self, inner: int, outer: int, step: int = 0) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(16, inner), nn.GroupNorm(16, outer)
        self.one, self.two = nn.Conv2d(inner, outer, 3, padding=1), nn.Conv2d(outer, outer, 3, padding=1)
        self.short = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()
        self.step = nn.Linear(step, outer) if step else None

    def forward(self, x: Any, step: Any = None) -> Any:
        y = self.one(functional.silu(self.first(x)))
        if self.step is not None:
            y = y + self.step(functional.silu(step))[:, :, None, None]
        return self.short(x) + self.two(functional.silu(self.second(y)))


class Attend(nn.Module):
    """Attention of an image's places to each other, or to a text."""

    def __init__(self, width: int, other: int, heads: int = 8) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(16, width)
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.key, self.value = nn.Linear(other, width), nn.Linear(other, width)

    def forward(self, x: Any, text: Any = None) -> Any:
        batch, width, high, wide = x.shape
        places = self.norm(x).flatten(2).transpose(1, 2)
        other = places if text is None else text
        query, key, value = (
            part(one).view(batch, -1, self.heads, width // self.heads).transpose(1, 2)
            for part, one in ((self.query, places), (self.key, other), (self.value, other))
        )
        attended = functional.scaled_dot_product_attention(query, key, value)
        flat = self.out(attended.transpose(1, 2).reshape(batch, -1, width))
        return x + flat.transpose(1, 2).reshape(batch, width, high, wide)


class Unet(nn.Module):
    def __init__(self, width: int = 128, text: int = 512) -> None:
        super().__init__()
        step = 4 * width
        self.step = nn.Sequential(nn.Linear(width, step), nn.SiLU(), nn.Linear(step, step))
        self.begin = nn.Conv2d(4, width, 3, padding=1)
        self.down = Residual(width, width, step)
        self.shrink = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.low = Residual(width, 2 * width, step)
        self.own, self.cross = Attend(2 * width, 2 * width), Attend(2 * width, text)
        self.back = nn.Conv2d(2 * width, width, 3, padding=1)
        self.up = Residual(2 * width, width, step)
        self.norm, self.end = nn.GroupNorm(16, width), nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x: Any, step: Any, text: Any) -> Any:
        step = self.step(step)
        high = self.down(self.begin(x), step)
        low = self.cross(self.own(self.low(self.shrink(high), step)), text)
        wide = self.back(functional.interpolate(low, scale_factor=2.0, mode="nearest"))
        return self.end(functional.silu(self.norm(self.up(torch.cat((wide, high), 1), step))))


def diffusion_unet() -> Made:
    return Made(Unet(), (torch.randn(2, 4, 32, 32), torch.randn(2, 128), torch.randn(2, 77, 512)))


def vae_decoder() -> Made:
    block = nn.Sequential(
        nn.Conv2d(4, 256, 3, padding=1),
        Residual(256, 256),
        Attend(256, 256, heads=1),
        nn.Upsample(scale_factor=2.0, mode="nearest"),
        Residual(256, 128),
        nn.Upsample(scale_factor=2.0, mode="bilinear"),
        nn.GroupNorm(16, 128),
        nn.SiLU(),
        nn.Conv2d(128, 3, 3, padding=1),
    )
    return Made(block, (torch.randn(1, 4, 32, 32),))


def super_resolution() -> Made:
    layers = (nn.Conv2d(1, 64, 5, padding=2), nn.PReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.PReLU())
    network = nn.Sequential(*layers, nn.Conv2d(64, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 9, 3, padding=1))
    return Made(nn.Sequential(network, nn.PixelShuffle(3)), (torch.rand(1, 1, 224, 224),))


def dcgan() -> Made:
    """A generator: convolutions that widen."""
    layers: list[Any] = [nn.ConvTranspose2d(100, 512, 4, bias=False), nn.BatchNorm2d(512), nn.ReLU()]
    for inner, outer in ((512, 256), (256, 128), (128, 64)):
        layers += [nn.ConvTranspose2d(inner, outer, 4, 2, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU()]
    return Made(nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh()), (torch.randn(1, 100, 1, 1),))


def video() -> Made:
    layers: list[Any] = []
    for inner, outer, stride in ((3, 32, 2), (32, 64, 2), (64, 128, 2)):
        layers += [nn.Conv3d(inner, outer, 3, stride=stride, padding=1, bias=False), nn.BatchNorm3d(outer), nn.ReLU()]
    end = (nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(128, 400))
    return Made(nn.Sequential(*layers, *end), (torch.randn(1, 3, 16, 112, 112),))


class Conformer(nn.Module):
    """A layer of a speech model: attention, then a gated convolution along the time."""

    def __init__(self, width: int = 256, kernel: int = 31) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.wide = nn.Conv1d(width, 2 * width, 1)
        self.deep = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch, self.narrow = nn.BatchNorm1d(width), nn.Conv1d(width, width, 1)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))

    def forward(self, x: Any) -> Any:
        y = self.norms[0](x)
        x = x + self.attend(y, y, y, need_weights=False)[0]
        y = functional.glu(self.wide(self.norms[1](x).transpose(1, 2)), 1)
        x = x + self.narrow(functional.silu(self.batch(self.deep(y)))).transpose(1, 2)
        return x + self.feed(self.norms[2](x))


def conformer() -> Made:
    return Made(Conformer(), (torch.randn(1, 200, 256),))


class Recommender(nn.Module):
    """Tables that are looked up and summed, products of all pairs, and a network on these."""

    def __init__(self, tables: int = 8, width: int = 32) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(10_000, width) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, width))
        pairs = (tables + 1) ** 2
        self.top = nn.Sequential(nn.Linear(pairs + width, 256), nn.ReLU(), nn.Linear(256, 1), nn.Sigmoid())

    def forward(self, dense: Any, ids: Any) -> Any:
        bottom = self.bottom(dense)
        found = [table(ids[:, number]).sum(1) for number, table in enumerate(self.tables)]
        rows = torch.stack([bottom, *found], 1)
        return self.top(torch.cat(((rows @ rows.transpose(1, 2)).flatten(1), bottom), 1))


def recommender() -> Made:
    return Made(Recommender(), (torch.randn(128, 13), torch.randint(0, 10_000, (128, 8, 4))))


class Decides(nn.Module):
    """A classifier that gives probabilities and the class."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Any) -> Any:
        chances = torch.softmax(20 * self.module(x), -1)
        return chances, chances.argmax(-1)


def classifier(*, decides: bool = True) -> Made:
    network = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1000))
    return Made(Decides(network) if decides else network, (torch.randn(16, 784),))


def encoder() -> Made:
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, activation="gelu")
    return Made(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.randn(1, 128, 512),))
