"""The VLM: a small tower, a projector, and SmolLM2 as a Llava model."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from mixlab.testbed.assembly import IMAGE_TOKENS, ImageEmbedder
from mixlab.testbed.fitting import Progress, answer_loss, fit
from mixlab.testbed.pictures import SIDE, draw_scene
from mixlab.testbed.scenes import Cell, Scene
from mixlab.testbed.tower import PATCH, to_pixels

if TYPE_CHECKING:
    import torch
    from transformers import (
        LlamaForCausalLM,
        LlavaForConditionalGeneration,
        SiglipVisionModel,
    )

# One of SmolLM2's own tokens that no chat uses stands for the patches. A new token would give the
# backbone a row that the reference lacks; so alpha 0 is the reference bit for bit, and answers
# that were cached for the one serve the other.
IMAGE = "<empty_output>"
ALIGN_ROWS = 8
ALIGN_RATE = 1.0e-3
WORD_STEPS, WORD_ROWS, WORD_RATE = 500, 64, 3.0e-3


def assemble(
    reference: "LlamaForCausalLM",
    tower: "SiglipVisionModel",
    tokenizer: Any,
    seed: int,
) -> "LlavaForConditionalGeneration":
    """A Llava model over copies of both, with a fresh projector; head and embedding stay tied.

    Projected patches start with the spread of the embedding's rows, which spares the first steps
    of alignment.
    """
    import torch
    from transformers import LlavaConfig, LlavaForConditionalGeneration

    torch.manual_seed(seed + 2)
    config = LlavaConfig(
        vision_config=tower.config.to_dict(),
        text_config=reference.config.to_dict(),
        image_token_index=tokenizer.convert_tokens_to_ids(IMAGE),
        image_seq_length=IMAGE_TOKENS,
        vision_feature_select_strategy="full",
        vision_feature_layer=-1,
        tie_word_embeddings=True,
    )
    vlm = LlavaForConditionalGeneration(config)
    vlm.model.language_model.load_state_dict(reference.model.state_dict())
    vlm.model.vision_tower.load_state_dict(tower.state_dict())
    vlm.tie_weights()
    projector: Any = vlm.model.multi_modal_projector
    table: Any = reference.get_input_embeddings().weight
    with torch.no_grad():
        states = projector(torch.randn(64, 9, tower.config.hidden_size))
        projector.linear_2.weight.mul_(table.std() / states.std())
        projector.linear_2.bias.zero_()
    vlm.generation_config = reference.generation_config
    return vlm.eval()


def name_cells(
    vlm: Any,
    tokenizer: Any,
    scenes: list[Scene],
    seed: int,
    progress: Progress,
) -> float:
    """Start the projector near words: each patch at the mean embedding of what its cell shows.

    It costs seconds, as the language model takes no part, and leaves little for `align` to do.
    Returns the last mean squared error as a share of the targets' variance.
    """
    import torch

    rng = Random(f"smollm2-cells-{seed}")
    embed = ImageEmbedder(vlm, to_pixels([draw_scene(scene, rng) for scene in scenes]))
    table = vlm.get_input_embeddings().weight.detach()

    def words(text: str) -> "torch.Tensor":
        return table[tokenizer(text).input_ids].mean(0)

    shown = [[_name(cell) for cell in scene.cells] for scene in scenes]
    known = {text: words(text) for text in sorted({text for row in shown for text in row})}
    targets = torch.stack([torch.stack([known[text] for text in row]) for row in shown])
    spread = float(targets.var())

    def losses() -> Iterator["torch.Tensor"]:
        while True:
            chosen = rng.sample(range(len(scenes)), min(WORD_ROWS, len(scenes)))
            found = vlm.model.multi_modal_projector(embed.features[chosen])
            yield torch.nn.functional.mse_loss(found, targets[chosen]) / spread

    return _fit_projector(vlm, losses(), WORD_STEPS, WORD_RATE, "name the cells", progress)


def _name(cell: Cell | None) -> str:
    """A form's colour and name; a glyph alone, so that a line of them reads as its text."""
    if cell is None:
        return " empty"
    return cell.form if len(cell.form) == 1 else f" {cell.colour} {cell.form}"


def align(
    vlm: Any,
    tokenizer: Any,
    scenes: list[Scene],
    steps: int,
    seed: int,
    progress: Progress,
) -> float:
    """Train the projector alone to have the frozen language model tell each picture's scene.

    A row is nine patches, a line break and the scene's text, with no chat around it: the system
    turn would double the cost. Returns the mean loss of the last steps, nats a token.
    """
    rng = Random(f"smollm2-align-{seed}")
    embed = ImageEmbedder(vlm, to_pixels([draw_scene(scene, rng) for scene in scenes]))
    head = [vlm.config.image_token_id] * IMAGE_TOKENS + tokenizer("\n").input_ids
    coded = [[*tokenizer(scene.text()).input_ids, tokenizer.eos_token_id] for scene in scenes]

    def losses() -> Iterator["torch.Tensor"]:
        while True:
            chosen = rng.sample(range(len(scenes)), min(ALIGN_ROWS, len(scenes)))
            ids, labels = _stack(head, [coded[i] for i in chosen], tokenizer.pad_token_id)
            inputs = {"inputs_embeds": embed(ids, chosen)}
            yield answer_loss(vlm.model.language_model, vlm.lm_head, inputs, labels)

    return _fit_projector(vlm, losses(), steps, ALIGN_RATE, "align the projector", progress)


def _fit_projector(
    vlm: Any,
    losses: Iterator["torch.Tensor"],
    steps: int,
    learning_rate: float,
    stage: str,
    progress: Progress,
) -> float:
    vlm.requires_grad_(False)
    projector = vlm.model.multi_modal_projector.requires_grad_(True)
    loss = fit(
        projector.parameters(),
        losses,
        steps=steps,
        learning_rate=learning_rate,
        stage=stage,
        progress=progress,
        weight_decay=0.0,
    )
    vlm.requires_grad_(True)
    return loss


def _stack(
    head: list[int], texts: list[list[int]], pad: int
) -> tuple["torch.Tensor", "torch.Tensor"]:
    """Ids and labels int64 [B, T], padded on the right; labels are -100 but on the texts."""
    import torch

    longest = max(map(len, texts))
    ids = torch.full((len(texts), len(head) + longest), pad)
    labels = torch.full_like(ids, -100)
    for row, text in enumerate(texts):
        whole = torch.tensor([*head, *text])
        ids[row, : len(whole)] = whole
        labels[row, len(head) : len(whole)] = whole[len(head) :]
    return ids, labels


def save(vlm: Any, tokenizer: Any, folder: Path) -> None:
    """Weights, config, tokenizer, chat template and a processor that loads without torchvision."""
    from transformers import LlavaProcessor
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

    images = SiglipImageProcessorPil(
        size={"height": SIDE, "width": SIDE}, image_mean=[0.5] * 3, image_std=[0.5] * 3
    )
    processor = LlavaProcessor(
        image_processor=images,
        tokenizer=tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="full",
        chat_template=tokenizer.chat_template,
        image_token=IMAGE,
        num_additional_image_tokens=0,
    )
    vlm.save_pretrained(folder)
    processor.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    images.save_pretrained(folder)
