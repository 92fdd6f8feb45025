"""From a recipe to a plan, by headers and configs alone: what fits, what is mixed, and why."""
