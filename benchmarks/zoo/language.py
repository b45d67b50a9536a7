"""Networks of transformers, of real widths and few layers, with random weights."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.zoo.torch_net import Made, OneOutput

_IDS = 1000


def _ids(tokens: int, batch: int = 1) -> Any:
    return torch.randint(0, _IDS, (batch, tokens))


def _made(network: Any, x: Any, output: str = "last_hidden_state", **more: Any) -> Made:
    return Made(OneOutput(network, output), (x,), **more)


def _eager(configuration: Any) -> Any:
    """Attention as products and a softmax, which every exporter knows."""
    configuration._attn_implementation = "eager"
    configuration.use_cache = False
    return configuration


def bert(*, any_tokens: bool = False) -> Made:
    import transformers as t

    configuration = _eager(t.BertConfig(num_hidden_layers=4, vocab_size=8192))
    dynamic = {0: {1: "tokens"}} if any_tokens else {}
    return _made(t.BertModel(configuration, add_pooling_layer=False), _ids(128), dynamic=dynamic)


def gpt2() -> Made:
    import transformers as t

    configuration = _eager(t.GPT2Config(n_layer=3, vocab_size=8192))
    return _made(t.GPT2LMHeadModel(configuration), _ids(128), output="logits")


def llama() -> Made:
    import transformers as t

    sizes = {"hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16, "num_key_value_heads": 8}
    configuration = _eager(t.LlamaConfig(num_hidden_layers=2, vocab_size=8192, **sizes))
    return _made(t.LlamaForCausalLM(configuration), _ids(128), output="logits")


def qwen2() -> Made:
    import transformers as t

    sizes = {"hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14, "num_key_value_heads": 2}
    configuration = _eager(t.Qwen2Config(num_hidden_layers=2, vocab_size=8192, **sizes))
    return _made(t.Qwen2ForCausalLM(configuration), _ids(128), output="logits")


def whisper_encoder() -> Made:
    import transformers as t

    configuration = _eager(t.WhisperConfig(encoder_layers=4, decoder_layers=1))
    network = t.models.whisper.modeling_whisper.WhisperEncoder(configuration)
    return _made(network, torch.randn(1, configuration.num_mel_bins, 3000))


def t5_encoder() -> Made:
    import transformers as t

    return _made(t.T5EncoderModel(_eager(t.T5Config(num_layers=4, vocab_size=8192))), _ids(128))


def clip_text() -> Made:
    import transformers as t

    configuration = _eager(t.CLIPTextConfig(num_hidden_layers=6, vocab_size=8192, eos_token_id=2))
    return _made(t.CLIPTextModel(configuration), _ids(77))


def segformer() -> Made:
    import transformers as t

    network = t.SegformerForSemanticSegmentation(_eager(t.SegformerConfig()))
    return _made(network, torch.randn(1, 3, 256, 256), output="logits")


def mamba() -> Made:
    """Its scan is written out for each token."""
    import transformers as t

    configuration = t.MambaConfig(hidden_size=768, num_hidden_layers=2, vocab_size=8192, use_cache=False)
    return _made(t.MambaForCausalLM(configuration), _ids(16), output="logits")


def convnextv2() -> Made:
    import transformers as t

    sizes = {"depths": [2, 2, 6, 2], "hidden_sizes": [40, 80, 160, 320]}
    return _made(t.ConvNextV2Model(t.ConvNextV2Config(**sizes)), torch.randn(1, 3, 224, 224))
