from tiny_tasks import folders, lm, text_task, vision_task, vlm

__all__ = ["folders", "lm", "text_task", "vision_task", "vlm"]
