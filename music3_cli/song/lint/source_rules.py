"""Rules about what lyrics come in: front matter, manifests, presets. Their faults are found while reading."""

from __future__ import annotations

from music3_cli.song.lint.rule import Rule, register

FRONT_MATTER = register(
    Rule(
        "front-matter",
        "error",
        "file",
        "Front matter that cannot be read: not closed, not YAML, an unknown field, or a value that a field does "
        "not take.",
        "{what}",
        "{hint}",
        example="---\ntitel: Morning Light\n---\n[verse]\nMorning light on the pine\n[outro]\n",
    )
)
PRESET_UNKNOWN = register(
    Rule("preset-unknown", "error", "preset", "There is no preset of this name.", "{what}", "{hint}"),
)
PRESET_INVALID = register(
    Rule(
        "preset-invalid",
        "error",
        "preset",
        "A preset file that cannot be read: not YAML, a field missing, unknown or of another kind, a placeholder "
        "without a default or never used.",
        "{what}",
        "{hint}",
    )
)
PRESET_VOCAL = register(
    Rule(
        "preset-vocal",
        "warning",
        "preset",
        "A preset's field `vocal` and its caption tell different things.",
        "vocal is {vocal}, and the caption does not say so",
        "Make field and caption agree.",
    )
)
MANIFEST_INVALID = register(
    Rule(
        "manifest-invalid",
        "error",
        "manifest",
        "A manifest that cannot be read: not YAML, JSON, JSON lines or CSV, or without songs.",
        "{what}",
        "{hint}",
    )
)
MANIFEST_NO_LYRICS = register(
    Rule(
        "manifest-no-lyrics",
        "warning",
        "manifest",
        "A song of a manifest without lyrics or lyrics_text, and not instrumental.",
        "{song} has no lyrics",
        "Give it lyrics (a file) or lyrics_text, or instrumental: true.",
    )
)
