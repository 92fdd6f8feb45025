"""The VLM: tower, projector and the reference as a Llava model, the projector aligned alone."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlab.testbed.batches import batches, code
from mixlab.testbed.fitting import Progress, answer_loss, fit, silent
from mixlab.testbed.lessons import CAPTION
from mixlab.testbed.pictures import SIDE
from mixlab.testbed.settings import VisionSize
from mixlab.testbed.tokenizer import IMAGE
from mixlab.testbed.tower import PATCH, features, to_pixels

if TYPE_CHECKING:
    import torch
    from transformers import (
        LlamaForCausalLM,
        LlavaForConditionalGeneration,
        PreTrainedTokenizerFast,
        SiglipVisionModel,
    )

IMAGE_TOKENS = (SIDE // PATCH) ** 2


def assemble(
    reference: "LlamaForCausalLM",
    tower: "SiglipVisionModel",
    tokenizer: "PreTrainedTokenizerFast",
    seed: int,
) -> "LlavaForConditionalGeneration":
    """A Llava model over copies of both, with a fresh projector."""
    import torch
    from transformers import LlavaConfig, LlavaForConditionalGeneration

    torch.manual_seed(seed + 2)
    config = LlavaConfig(
        vision_config=tower.config.to_dict(),
        text_config=reference.config.to_dict(),
        image_token_index=int(tokenizer.get_vocab()[IMAGE]),
        image_seq_length=IMAGE_TOKENS,
        vision_feature_select_strategy="full",
        vision_feature_layer=-1,
        tie_word_embeddings=False,
    )
    vlm = LlavaForConditionalGeneration(config)
    vlm.model.language_model.load_state_dict(reference.model.state_dict())
    vlm.lm_head.load_state_dict(reference.lm_head.state_dict())
    vlm.model.vision_tower.load_state_dict(tower.state_dict())
    vlm.generation_config = reference.generation_config
    return vlm.eval()


class ImageEmbedder:
    """Input embeddings of rows whose pictures stand as features [N, 9, H], computed once."""

    def __init__(self, vlm: Any, pixels: "torch.Tensor") -> None:
        import torch

        self.vlm = vlm
        with torch.no_grad():
            self.features = torch.cat(
                [features(vlm.model.vision_tower, part) for part in pixels.split(256)]
            )
        self.image_id = vlm.config.image_token_id

    def __call__(self, ids: "torch.Tensor", pictures: Sequence[int]) -> "torch.Tensor":
        """Embeddings [B, T, H] of ids [B, T]; row i shows picture ``pictures[i]``."""
        embeds = self.vlm.get_input_embeddings()(ids)
        projected = self.vlm.model.multi_modal_projector(self.features[list(pictures)])
        return embeds.masked_scatter((ids == self.image_id)[..., None], projected)


def align(
    vlm: Any,
    tokenizer: "PreTrainedTokenizerFast",
    rows: Sequence[dict[str, Any]],
    data: Path,
    size: VisionSize,
    seed: int,
    progress: Progress = silent,
) -> float:
    """Train the projector alone to have the frozen language model tell each picture's scene.

    ``rows`` are vision training rows of ``data``; returns the last loss in nats a token.
    """
    from PIL import Image

    shown = list({row["image"]: row["scene"] for row in rows}.items())
    pictures = [Image.open(data / path).convert("RGB") for path, _ in shown]
    embed = ImageEmbedder(vlm, to_pixels(pictures))
    coded = code(tokenizer, [(CAPTION, scene) for _, scene in shown], IMAGE_TOKENS)

    def losses() -> Iterator["torch.Tensor"]:
        epoch = 0
        while True:
            for batch in batches(coded, size.align_rows, tokenizer.pad_token_id, seed + epoch):
                inputs = {"inputs_embeds": embed(batch.ids, batch.rows)}
                yield answer_loss(vlm.model.language_model, vlm.lm_head, inputs, batch.labels)
            epoch += 1

    vlm.requires_grad_(False)
    projector = vlm.model.multi_modal_projector.requires_grad_(True)
    loss = fit(
        projector.parameters(),
        losses(),
        steps=size.align_steps,
        learning_rate=size.align_learning_rate,
        stage="align",
        progress=progress,
        weight_decay=0.0,
    )
    vlm.requires_grad_(True)
    return loss


def save(vlm: Any, tokenizer: "PreTrainedTokenizerFast", folder: Path) -> None:
    """Weights, config, tokenizer, chat template and a processor that loads without torchvision."""
    from transformers import LlavaProcessor
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

    vlm.save_pretrained(folder)
    images = SiglipImageProcessorPil(
        size={"height": SIDE, "width": SIDE}, image_mean=[0.5] * 3, image_std=[0.5] * 3
    )
    processor = LlavaProcessor(
        image_processor=images,
        tokenizer=tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="full",
        chat_template=tokenizer.chat_template,
        num_additional_image_tokens=0,
    )
    processor.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    images.save_pretrained(folder)
