"""What there is to merge with: packaged recipes and methods, in words."""

from __future__ import annotations

from mixlab.merge._method import get_method, method_names, spelled
from mixlab.merge.recipes import named_recipes
from mixlab.spec import load_yaml


def list_merges() -> str:
    """Packaged recipes with their placeholders, and methods with their settings."""
    told = ["recipes (mixlab merge NAME OUT --model PLACEHOLDER=DIR …):"]
    for name, path in named_recipes().items():
        data = load_yaml(path).data
        entries = [one["model"] if isinstance(one, dict) else one for one in data["models"]]
        places = dict.fromkeys([*entries, *([data["base"]] if "base" in data else [])])
        told.append(f"  {name:32} {data['method']} of {', '.join(places)}")
    told += ["", "methods (`method:` in a recipe):"]
    for name in method_names():
        method = get_method(name)
        fields = {**method.shared.model_fields, **method.each.model_fields}
        settings = [
            spelled(key) if field.is_required() else f"{spelled(key)}={field.default}"
            for key, field in fields.items()
        ]
        told.append(f"  {name:20} {method.summary}")
        if settings:
            told.append(f"  {'':20} settings: {', '.join(settings)}")
    return "\n".join(told)
