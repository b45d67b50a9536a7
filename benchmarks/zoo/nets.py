"""The networks: how each is exported, and which function makes it. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

How = Literal["onnx", "dynamo", "turbine", "qdq", "dynamic-i8", "stablehlo", "mlir"]
"""torch's older and newer exporter to ONNX; iree-turbine; ONNX Runtime's two quantizers of what the older one writes;
text of two dialects."""


@dataclass(frozen=True)
class Net:
    name: str
    how: How
    make: str
    """`module.function` of this package: it returns a module with its inputs; of a text, what to render."""
    options: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = ""
    """Empty: f32 on processors, f16 on GPUs."""

    def element(self, *, on_host: bool) -> str:
        return self.dtype or ("f32" if on_host else "f16")


def _net(name: str, how: How, make: str, dtype: str = "", **options: Any) -> Net:
    return Net(name, how, make, options, dtype)


def _image(name: str, how: How, make: str, dtype: str = "", **options: Any) -> Net:
    return _net(name, how, f"vision.{make}", dtype, **{"of": name, **options})


NETS = (
    # Images, whole networks.
    _image("resnet18", "turbine", "torchvision_net"),
    _image("resnet34", "onnx", "torchvision_net"),
    _image("resnet50", "onnx", "torchvision_net"),
    _image("resnet50_batch8", "onnx", "torchvision_net", of="resnet50", batch=8),
    _image("resnet18_any_batch", "onnx", "torchvision_net", of="resnet18", batch=2, any_batch=True),
    _image("resnext50_32x4d", "dynamo", "torchvision_net"),
    _image("mobilenet_v2", "dynamo", "torchvision_net"),
    _image("mobilenet_v3_large", "onnx", "torchvision_net"),
    _image("efficientnet_b0", "onnx", "torchvision_net"),
    _image("convnext_tiny", "onnx", "torchvision_net"),
    _image("densenet121", "onnx", "torchvision_net"),
    _image("shufflenet_v2_x1_0", "onnx", "torchvision_net"),
    _image("squeezenet1_1", "onnx", "torchvision_net"),
    _image("regnet_y_400mf", "onnx", "torchvision_net"),
    _image("mnasnet0_5", "dynamo", "torchvision_net"),
    _image("googlenet", "onnx", "torchvision_net"),
    _image("swin_t", "onnx", "torchvision_net"),
    _image("vit_b_16", "onnx", "torchvision_net"),
    _net("lraspp_segments", "onnx", "vision.segmentation", of="lraspp_mobilenet_v3_large"),
    _net("deeplabv3_segments", "dynamo", "vision.segmentation", of="deeplabv3_mobilenet_v3_large"),
    _net("ssdlite_heads", "onnx", "vision.detection_heads"),
    _net("ssdlite_boxes", "onnx", "vision.detection", dtype="f32"),
    _image("mobilevit_s", "dynamo", "timm_net", size=256),
    _image("ghostnet_100", "onnx", "timm_net"),
    _image("poolformer_s12", "onnx", "timm_net"),
    _image("mixer_s16_224", "turbine", "timm_net"),
    # Language, sound and pictures, by transformers.
    _net("bert", "onnx", "language.bert"),
    _net("bert_any_tokens", "dynamo", "language.bert", any_tokens=True),
    _net("gpt2_prefill", "dynamo", "language.gpt2"),
    _net("llama_prefill", "dynamo", "language.llama", dtype="bf16"),
    _net("qwen2_prefill", "dynamo", "language.qwen2"),
    _net("whisper_encoder", "onnx", "language.whisper_encoder"),
    _net("t5_encoder", "onnx", "language.t5_encoder", dtype="f32"),
    _net("clip_text", "onnx", "language.clip_text"),
    _net("segformer_b0", "onnx", "language.segformer"),
    _net("mamba", "onnx", "language.mamba"),
    _net("convnextv2", "dynamo", "language.convnextv2"),
    # Written here.
    _net("llama_block_prefill", "onnx", "blocks.decoder", shape="llama", tokens=128),
    _net("llama_block_token", "onnx", "blocks.decoder", shape="llama", tokens=1, cached=511),
    _net("llama_block_any_cache", "onnx", "blocks.decoder", shape="llama", tokens=1, cached=127, any_cache=True),
    _net("mistral_block_token", "turbine", "blocks.decoder", shape="mistral", tokens=1, cached=1023),
    _net("qwen_block_prefill", "dynamo", "blocks.decoder", shape="qwen", tokens=256, dtype="bf16"),
    _net("qwen_block_token", "turbine", "blocks.decoder", shape="qwen", tokens=1, cached=255),
    _net("moe_block", "onnx", "blocks.experts"),
    _net("lstm", "onnx", "blocks.lstm", dtype="f32"),
    _net("gru_any_tokens", "onnx", "blocks.gru", dtype="f32"),
    _net("diffusion_unet", "onnx", "blocks.diffusion_unet"),
    _net("vae_decoder", "dynamo", "blocks.vae_decoder"),
    _net("super_resolution", "onnx", "blocks.super_resolution"),
    _net("dcgan", "onnx", "blocks.dcgan"),
    _net("video_conv3d", "onnx", "blocks.video"),
    _net("conformer_block", "onnx", "blocks.conformer"),
    _net("recommender", "onnx", "blocks.recommender", dtype="f32"),
    _net("mlp_argmax", "onnx", "blocks.classifier", dtype="f32"),
    # Whole numbers.
    _image("resnet18_qdq", "qdq", "torchvision_net", of="resnet18", dtype="f32"),
    _image("mobilenet_v2_qdq", "qdq", "torchvision_net", of="mobilenet_v2", dtype="f32"),
    _net("mlp_qdq", "qdq", "blocks.classifier", dtype="f32", decides=False),
    _net("encoder_i8", "dynamic-i8", "blocks.encoder", dtype="f32"),
    # Text.
    _net("stablehlo_mlp", "stablehlo", "mlp.mlir.j2"),
    _net("stablehlo_attention", "stablehlo", "attention.mlir.j2"),
    _net("stablehlo_conv", "stablehlo", "conv.mlir.j2"),
    _net("linalg_encoder", "mlir", "encoder"),
)
