"""The fields of a manifest, as pydantic models: what each may be, and the JSON Schema that is published.

Values of settings are checked by the settings themselves (`song/settings.py`): a manifest takes what a flag takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema

from music3_cli.song.manifest.template import check_song_template
from music3_cli.song.settings import SETTINGS, parse_on_off, parse_seed

FILE_TAGS = ("genre", "date", "composer", "copyright")
"""Labels of the file that are no settings of their own."""

_NUMBER_OR_TEXT: Mapping[str, Any] = {"anyOf": [{"type": "number"}, {"type": "string"}]}
_TEXT: Mapping[str, Any] = {"type": "string"}
_PLAIN: Mapping[str, Any] = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]}
_SWITCH: Mapping[str, Any] = {"type": "boolean"}


def _plain_text(value: object) -> object:
    """Text; numbers are taken as they are written."""
    if isinstance(value, list | dict):
        raise ValueError("one plain value was expected, not a list or a table")
    if not str(value).strip():
        raise ValueError("text was expected; it is empty")
    return value


def _file_name(value: object) -> object:
    if str(_plain_text(value)).strip() == "-":
        raise ValueError("a file was expected; standard input is not part of a manifest")
    return value


def _whole_table(value: object) -> object:
    if not isinstance(value, dict) or any(isinstance(item, list | dict) for item in value.values()):
        raise ValueError("a table of plain values was expected")
    return value


def _file_tags(value: object) -> object:
    for name in _whole_table(value):  # type: ignore[attr-defined]
        if name not in FILE_TAGS:
            raise ValueError(f"unknown tag {name!r}; one of {', '.join(FILE_TAGS)} was expected")
    return value


def seed_list(value: object) -> list[int]:
    """Seeds as a list, or as text such as `3 9 27`.

    Raises:
        ValueError: not one or more seeds.
    """
    parts = value.replace(",", " ").replace(";", " ").split() if isinstance(value, str) else value
    parts = [parts] if isinstance(parts, int) and not isinstance(parts, bool) else parts
    if not isinstance(parts, list) or not parts:
        raise ValueError("a list of seeds was expected, such as [3, 9, 27]")
    seeds = [parse_seed(part) for part in parts]
    if "random" in seeds:
        raise ValueError("numbers were expected; random goes with seed")
    if len(set(seeds)) < len(seeds):
        raise ValueError("a seed stands twice")
    return [int(seed) for seed in seeds]


def _seeds(value: object) -> object:
    seed_list(value)
    return value


def _switch(value: object) -> object:
    parse_on_off(value)
    return value


def _setting(name: str) -> AfterValidator:
    def check(value: object) -> object:
        if isinstance(value, list | dict):
            raise ValueError("one plain value was expected, not a list or a table")
        SETTINGS[name].parse(value)
        return value

    return AfterValidator(check)


def _template(value: str) -> str:
    check_song_template(value)
    return value


Text = Annotated[Any, AfterValidator(_plain_text), WithJsonSchema({**_PLAIN})]
File = Annotated[Any, AfterValidator(_file_name), WithJsonSchema({**_PLAIN})]
Switch = Annotated[Any, AfterValidator(_switch), WithJsonSchema({**_SWITCH})]


class _Fields(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class DefaultFields(_Fields):
    """Fields that a song, or `defaults` for all songs, may have."""

    title: Text = Field(None, description="Title, for names and tags.")
    artist: Text = Field(None, description="Artist, for tags.")
    album: Text = Field(None, description="Album, for tags.")
    track: Annotated[Any, _setting("track"), WithJsonSchema({**_NUMBER_OR_TEXT})] = Field(
        None, description="Track number such as 3 or 3/12, for tags."
    )
    tags: Annotated[Any, AfterValidator(_file_tags), WithJsonSchema({"type": "object"})] = Field(
        None, description=f"More tags of the file: {', '.join(FILE_TAGS)}."
    )
    lyrics: File = Field(None, description="Lyrics file; a relative path begins at the manifest's folder.")
    lyrics_text: Text = Field(None, description="The words themselves, instead of a file. No front matter.")
    instrumental: Switch = Field(None, description="No lyrics: a sheet of sections for max_duration.")
    fix_lyrics: Switch = Field(None, description="Mend the lyrics as `music3 lint --fix` does.")
    as_is: Switch = Field(None, description="Lyrics as they are: no cleaning, no front matter, no lint.")
    caption: Annotated[Any, _setting("caption"), WithJsonSchema({**_TEXT})] = Field(
        None, description="Description of the music."
    )
    caption_file: File = Field(None, description="File with the description, found as lyrics are.")
    preset: Text = Field(None, description="Named description; see `music3 presets list`.")
    set: Annotated[Any, AfterValidator(_whole_table), WithJsonSchema({"type": "object"})] = Field(
        None, description="Values for the preset's placeholders, such as {bpm: 92}."
    )
    seed: Annotated[Any, _setting("seed"), WithJsonSchema({**_NUMBER_OR_TEXT})] = Field(
        None, description="0 to 2^64 - 1; or random: drawn at the first render, and kept by later runs."
    )
    seeds: Annotated[Any, AfterValidator(_seeds), WithJsonSchema({"type": "array", "items": {"type": "integer"}})] = (
        Field(None, description="A take for each of these seeds, instead of seed and takes.")
    )
    takes: Annotated[Any, _setting("takes"), WithJsonSchema({"type": "integer", "minimum": 1})] = Field(
        None, description="Songs of these words; take k uses seed + k - 1."
    )
    max_duration: Annotated[Any, _setting("max_duration"), WithJsonSchema({**_NUMBER_OR_TEXT})] = Field(
        None, description="Ceiling (not a target), such as 210 or 3:30."
    )
    steps: Annotated[Any, _setting("steps"), WithJsonSchema({"type": "integer"})] = Field(
        None, description="Euler steps a window."
    )
    shift: Annotated[Any, _setting("shift"), WithJsonSchema({"type": "number"})] = Field(
        None, description="Of the steps' times: above 1 the first steps are smaller."
    )
    fast: Annotated[Any, _setting("fast"), WithJsonSchema({**_SWITCH})] = Field(
        None, description="16 steps, shift 2 and fp16, where the same place does not say otherwise."
    )
    guidance: Annotated[Any, _setting("guidance"), WithJsonSchema({"type": "number"})] = Field(
        None, description="Guidance of the acoustic stage."
    )
    noise_seed: Annotated[Any, _setting("noise_seed"), WithJsonSchema({"type": "integer"})] = Field(
        None, description="Another seed for the acoustic stage alone."
    )
    seed_scheme: Annotated[Any, _setting("seed_scheme"), WithJsonSchema({**_TEXT})] = Field(
        None, description="server or diffusers."
    )
    precision: Annotated[Any, _setting("precision"), WithJsonSchema({**_TEXT})] = Field(
        None, description="Of the acoustic stage."
    )
    talker_dtype: Annotated[Any, _setting("talker_dtype"), WithJsonSchema({**_TEXT})] = Field(
        None, description="auto, bf16 or fp32; one for all songs of a batch."
    )
    format: Annotated[Any, _setting("format"), WithJsonSchema({**_TEXT})] = Field(
        None, description="wav, flac, mp3, ogg or opus."
    )
    bit_depth: Annotated[Any, _setting("bit_depth"), WithJsonSchema({**_NUMBER_OR_TEXT})] = Field(
        None, description="16, 24 or float (wav only)."
    )
    quality: Annotated[Any, _setting("quality"), WithJsonSchema({"type": "number"})] = Field(
        None, description="Of mp3, ogg and opus, 0 to 10."
    )
    sample_rate: Annotated[Any, _setting("sample_rate"), WithJsonSchema({"enum": [44100, 32000]})] = Field(
        None, description="44100 or 32000."
    )
    normalize: Annotated[Any, _setting("normalize"), WithJsonSchema({**_TEXT})] = Field(
        None, description="none, peak[=-1] (dBTP) or loudness[=-14] (LUFS)."
    )
    dither: Annotated[Any, _setting("dither"), WithJsonSchema({**_SWITCH})] = Field(
        None, description="Dither when rounding to 16 or 24 bits."
    )
    keep_codes: Switch = Field(None, description="Keep the talker's codes beside the song, for --from-codes.")
    matrix: Annotated[
        Any,
        AfterValidator(lambda value: value),
        WithJsonSchema({"type": "object", "additionalProperties": {"type": "array"}}),
    ] = Field(
        None, description="Lists of values by field, such as {preset: [a, b], seed: [1, 2]}: a song for each choice."
    )


class SongFields(DefaultFields):
    """One song."""

    id: Text = Field(None, description="Short name, unique in the manifest. Without it: the lyrics file's name.")


class ManifestFields(_Fields):
    """A manifest of a music3 batch. JSON lines and CSV have songs only, one a line or row."""

    title: Text = Field(None, description="The batch's title, for its audition page.")
    output: Annotated[str, AfterValidator(_template), StringConstraints(min_length=1)] = Field(
        "", description="Names of the files in the output folder, such as {index}-{title}-{seed}.{ext}."
    )
    defaults: DefaultFields | None = Field(None, description="Fields of every song without its own.")
    songs: list[SongFields] = Field(description="The songs, in the order of the album.")


SETTING_FIELDS = tuple(name for name in DefaultFields.model_fields if name in SETTINGS)
NOT_IN_A_MATRIX = ("id", "matrix", "tags", "set", "seeds", "title", "track")
MATRIX_FIELDS = tuple(name for name in DefaultFields.model_fields if name not in NOT_IN_A_MATRIX)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a manifest in YAML or JSON; of one song in JSON lines: `$defs/SongFields`."""
    schema = ManifestFields.model_json_schema()
    for table in (schema, *schema["$defs"].values()):
        for part in table["properties"].values():
            part.pop("title", None)  # pydantic's own, a name in capitals
            if part.get("default", "") is None or part.get("default") == "":
                part.pop("default", None)
    schema["title"] = "music3 batch manifest"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
