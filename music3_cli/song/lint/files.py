"""Lint of whole files: what kind each is, its findings, and its mended text."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path, PurePath
from typing import Literal

from music3_cli.errors import InputError
from music3_cli.song.lint import source_rules, text_rules
from music3_cli.song.lint.check import (
    Caption,
    check_a_caption,
    check_lyrics,
    check_size,
    check_together_with,
    fix_caption,
    fix_lyrics_file,
)
from music3_cli.song.lint.finding import ALL, Finding, Selection, finding_of, in_order, locate
from music3_cli.song.lint.manifest import ManifestSong, Value, read_manifest
from music3_cli.song.lint.prompt_rules import may_be_near_a_limit
from music3_cli.song.lint.rule import Hit
from music3_cli.song.lyrics import Lyrics, parse_lyrics
from music3_cli.song.manifest.document import ENDINGS, MAX_MANIFEST_BYTES
from music3_cli.song.place import text_place
from music3_cli.song.presets import DEFAULT_PRESET, VOCALS, Preset, load_preset, preset_of
from music3_cli.song.prompt import prompt_text
from music3_cli.song.settings import SETTINGS, parse_duration
from music3_cli.song.text import MAX_TEXT_BYTES, SourceFault, SourceText, clean_text, decode_text, read_bytes

Kind = Literal["lyrics", "caption", "preset", "manifest"]
KINDS: tuple[Kind, ...] = ("lyrics", "caption", "preset", "manifest")


CountTokens = Callable[[str], int | None]
"""The tokens of a prompt's text, or None where no tokenizer is there after all."""


@dataclass(frozen=True)
class Options:
    """How to lint.

    Attributes:
        selection: which rules count.
        ceiling: frames, for lyrics that have no ceiling of their own.
        count_tokens: the checkpoint's tokenizer; None to estimate.
        mend: give the mended text, which takes longer.
    """

    selection: Selection = ALL
    ceiling: int | None = None
    count_tokens: CountTokens | None = None
    mend: bool = True


@dataclass(frozen=True)
class Report:
    """One file's findings.

    Attributes:
        kind: what it was taken for; None where it cannot be read.
        text: the mended text, which equals the file's where nothing can be mended; None where the file cannot be
            read or is of a kind that is not mended.
        mended: what mending changes: rule -> how many times.
        mentions: files that a manifest names, as (path, kind), and where it names them.
    """

    file: str
    findings: list[Finding]
    text: str | None = None
    mended: Mapping[str, int] = field(default_factory=dict)
    kind: Kind | None = None
    mentions: tuple[tuple[str, Kind, Finding], ...] = field(default=(), repr=False)


def lint_file(path: str, kind: Kind | None, options: Options) -> Report:
    """Lint one file, or standard input (`-`)."""
    name = "<stdin>" if path == "-" else path
    try:
        data = read_bytes(path, _most_bytes(path))
    except SourceFault as fault:
        return Report(name, options.selection.findings([finding_of(fault, name)]))
    return lint_text(data, name, kind, options)


def _most_bytes(name: str) -> int:
    return MAX_MANIFEST_BYTES if PurePath(name).suffix.lower() in ENDINGS else MAX_TEXT_BYTES


def lint_text(data: bytes, name: str, kind: Kind | None, options: Options) -> Report:
    """Lint a file's bytes. Never raises for what is in them: that is what findings are for."""
    select = options.selection
    encoding: list[Finding] = []
    try:
        try:
            raw = decode_text(data, name, as_is=True, most=_most_bytes(name)).text
        except SourceFault as fault:
            recoded = _recoded(data) if fault.rule == text_rules.UTF16.id else None
            if recoded is None:
                return Report(name, select.findings([replace(finding_of(fault, name), fixable=False)]))
            encoding, raw = [finding_of(fault, name)], recoded
        place = text_place(raw)
        reading = [*encoding, *(locate(hit, name, place) for hit in text_rules.check_raw(raw))]
        source = clean_text(raw, name)
    except SourceFault as fault:
        return Report(name, select.findings([*encoding, finding_of(fault, name)]))
    kind = kind or kind_of(name, source.text)
    if kind == "manifest":
        report = _lint_manifest(source, options)
    elif kind == "preset":
        report = Report(name, _preset_findings(source, select))
    elif kind == "caption":
        report = _lint_caption(source, select)
    else:
        report = _lint_lyrics(source, options)
    mendable = kind in ("lyrics", "caption")
    reading = [replace(finding, fixable=finding.fixable and mendable) for finding in reading]
    changed = Counter(finding.rule for finding in select.findings(reading) if finding.fixable)
    return replace(
        report,
        kind=kind,
        findings=in_order(select.findings([*reading, *report.findings])),
        mended=dict(changed + Counter(report.mended)),
    )


def _count(hits: Iterable[Hit]) -> dict[str, int]:
    return dict(Counter(hit.rule.id for hit in hits))


def _recoded(data: bytes) -> str | None:
    for mark, encoding in (
        (codecs.BOM_UTF32_LE, "utf-32"),
        (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if data.startswith(mark):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError:
                continue
    return None


def kind_of(name: str, text: str) -> Kind:
    """What a file is, by its ending and, where that does not tell, by its content."""
    path = PurePath(name)
    if path.suffix.lower() in ENDINGS:
        is_yaml = path.suffix.lower() in (".yaml", ".yml")
        tops = {line.split(":")[0] for line in text.splitlines() if line[:1].isalpha() and ":" in line}
        return "preset" if is_yaml and "caption" in tops and "songs" not in tops else "manifest"
    if "caption" in path.stem.lower():
        return "caption"
    lines = {line.strip().rstrip(":").lower() for line in text.splitlines()}
    headings = {"global metadata", "vocal details", "arrangement"} & lines
    return "caption" if len(headings) > 1 and not text.startswith("---") and "[" not in text else "lyrics"


def _lint_lyrics(source: SourceText, options: Options) -> Report:
    select = options.selection
    try:
        lyrics = parse_lyrics(source)
    except SourceFault as fault:
        return Report(source.name, [finding_of(fault, source.name)])
    findings, ceiling = _front_matter(lyrics)
    ceiling = ceiling if ceiling is not None else options.ceiling
    findings += check_lyrics(lyrics, ceiling, selection=select)
    caption, more = _front_caption(lyrics, select)
    findings += more
    findings += check_together_with(lyrics, caption, selection=select)
    findings += check_size(lyrics, caption, ceiling, _tokens(lyrics, caption, ceiling, options), selection=select)
    if not options.mend:
        return Report(source.name, findings)
    mended = fix_lyrics_file(source.text, select)
    return Report(source.name, findings, mended.text, _count(mended.hits))


def _tokens(lyrics: Lyrics, caption: str, ceiling: int | None, options: Options) -> int | None:
    prompt = prompt_text(caption, lyrics.text)
    if options.count_tokens is None or not may_be_near_a_limit(prompt, ceiling):
        return None
    return options.count_tokens(prompt)


def _front_matter(lyrics: Lyrics) -> tuple[list[Finding], int | None]:
    """Values that a setting does not take, and the ceiling."""
    findings, ceiling = [], None
    for name, item in lyrics.front_matter.items():
        if name not in SETTINGS:
            continue
        try:
            value = SETTINGS[name].parse(item.value) if item.value is not None else None
        except ValueError as error:
            rule = "caption-empty" if name == "caption" else source_rules.FRONT_MATTER.id
            what = f"front matter: {name.replace('_', ' ')} {item.value!r}: {error}"
            hint = f"Correct {name} in line {item.line}."
            fault = SourceFault(rule, lyrics.source.name, what, line=item.line, hint=hint)
            findings.append(finding_of(fault, lyrics.source.name))
            continue
        if name == "max_duration":
            ceiling = value
    return findings, ceiling


def _front_caption(lyrics: Lyrics, select: Selection) -> tuple[str, list[Finding]]:
    """The caption that the file's front matter asks for, and what is wrong with it."""
    front = lyrics.front_matter
    if "caption" in front and str(front["caption"].value).strip():
        text = str(front["caption"].value)
        caption = Caption(text, lyrics.source.name, front["caption"].place)
        return text, check_a_caption(caption, selection=select)
    if "preset" in front:
        value = Value(str(front["preset"].value), front["preset"].place)
        return _preset_caption(value, lyrics.source.name)
    return _preset_caption(None, lyrics.source.name)


def _preset_caption(value: Value | None, file: str) -> tuple[str, list[Finding]]:
    """A preset's caption, and a finding where there is none to be had."""
    try:
        return _known_preset(value.text if value else DEFAULT_PRESET).filled_caption(), []
    except InputError as error:
        fault_rule = error.rule if isinstance(error, SourceFault) else source_rules.PRESET_UNKNOWN.id
        line, column = value.place(0) if value else (0, 0)
        fault = SourceFault(fault_rule, file, error.message, line=line, column=column, hint=error.hint)
        return "", [finding_of(fault, file)]


@cache
def _known_preset(name: str) -> Preset:
    return load_preset(name)


def _lint_caption(source: SourceText, select: Selection) -> Report:
    if not source.text.strip():
        what = "the caption is empty; the description of the music was expected"
        hint = "`music3 presets show default` is an example."
        return Report(
            source.name, [finding_of(SourceFault("caption-empty", source.name, what, hint=hint), source.name)]
        )
    caption = Caption(source.text, source.name, text_place(source.text))
    findings = check_a_caption(caption, selection=select, fixable=True)
    mended = fix_caption(source.text, select)
    return Report(source.name, findings, mended.text, _count(mended.hits))


def _preset_findings(source: SourceText, select: Selection) -> list[Finding]:
    name = source.name
    try:
        preset = preset_of(source, PurePath(name).stem, Path(name), False)
    except SourceFault as fault:
        return [finding_of(fault, name)]
    text, place = preset.filled_caption(), preset.filled_place()
    findings = check_a_caption(Caption(text, name, place), selection=select)
    for setting, raw in preset.settings.items():
        try:
            SETTINGS[setting].parse(raw)
        except ValueError as error:
            what = f"preset: {setting} {raw!r}: {error}"
            findings.append(finding_of(SourceFault("preset-invalid", name, what), name))
    if not _vocal_fits(preset.vocal, text):
        hit = source_rules.PRESET_VOCAL.hit(0, preset.vocal, vocal=preset.vocal)
        findings.append(locate(hit, name, place))
    return findings


def _vocal_fits(vocal: str, caption: str) -> bool:
    from music3_cli.song.instrumental import is_instrumental_caption

    assert vocal in VOCALS
    if vocal == "instrumental":
        return is_instrumental_caption(caption)
    words = caption.lower().split()
    female, male = any("female" in word for word in words), any(word.startswith("male") for word in words)
    wanted = {"female": female, "male": male, "duet": "duet" in caption.lower(), "choir": "choir" in caption.lower()}
    return wanted[vocal]


def _lint_manifest(source: SourceText, options: Options) -> Report:
    try:
        songs = read_manifest(source, PurePath(source.name).suffix.lower())
    except SourceFault as fault:
        return Report(source.name, [finding_of(fault, source.name)])
    named: tuple[tuple[str, Kind], ...] = (("lyrics", "lyrics"), ("caption_file", "caption"))
    findings: list[Finding] = []
    mentions: list[tuple[str, Kind, Finding]] = []
    for song in songs:
        findings += _song_findings(song, source.name, options)
        for field_name, kind in named:
            if value := song.fields.get(field_name):
                path = str(PurePath(source.name).parent / value.text)
                line, column = value.place(0)
                at = SourceFault("file-unreadable", source.name, f"{value.text}: ", line=line, column=column)
                mentions.append((path, kind, finding_of(at, source.name)))
    return Report(source.name, findings, mentions=tuple(mentions))


def _song_findings(song: ManifestSong, file: str, options: Options) -> Iterable[Finding]:
    """Findings in the texts of one song of a manifest, in places of the manifest."""
    select, fields = options.selection, song.fields
    ceiling = options.ceiling
    if value := fields.get("max_duration"):
        try:
            ceiling = parse_duration(value.text)
        except ValueError as error:
            line, column = value.place(0)
            what = f"max_duration {value.text!r}: {error}"
            yield finding_of(SourceFault("manifest-invalid", file, what, line=line, column=column), file)
    caption = ""
    if value := fields.get("caption"):
        caption = value.text
        yield from check_a_caption(Caption(caption, file, value.place), selection=select)
    elif value := fields.get("preset"):
        caption, findings = _preset_caption(value, file)
        yield from findings
    if value := fields.get("lyrics_text"):
        yield from _inline_lyrics(value, caption, file, ceiling, options)
    elif "lyrics" not in fields and fields.get("instrumental", Value("", text_place(""))).text.lower() != "true":
        hit = source_rules.MANIFEST_NO_LYRICS.hit(0, song=song.label)
        yield locate(hit, file, lambda _: (song.line, 1))


def _inline_lyrics(value: Value, caption: str, file: str, ceiling: int | None, options: Options) -> Iterable[Finding]:
    """Lyrics inside a manifest are words only: front matter there would be sung."""
    lyrics = Lyrics(SourceText(file, value.text), value.text, place=value.place)
    yield from check_lyrics(lyrics, ceiling, selection=options.selection, fixable=False)
    if caption:
        yield from check_together_with(lyrics, caption, selection=options.selection)
        tokens = _tokens(lyrics, caption, ceiling, options)
        yield from check_size(lyrics, caption, ceiling, tokens, selection=options.selection)


def lint_all(paths: Iterable[str], kind: Kind | None, options: Options, told: Callable[[Report], None]) -> None:
    """Lint files, and every text file that a manifest among them names, each once; `told` takes each report."""
    done: set[str] = set()
    for path in paths:
        report = lint_file(path, kind, options)
        done.add(path)
        unreadable: list[Finding] = []
        named: list[Report] = []
        for mention, mention_kind, at in report.mentions:
            if mention in done:
                continue
            done.add(mention)
            inner = lint_file(mention, mention_kind, options)
            missing = [finding for finding in inner.findings if finding.rule == text_rules.UNREADABLE.id]
            if missing:
                unreadable.append(replace(at, message=at.message + missing[0].message, advice=missing[0].advice))
            else:
                named.append(inner)
        told(replace(report, findings=in_order([*report.findings, *unreadable])))
        for inner in named:
            told(inner)
