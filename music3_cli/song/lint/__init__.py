"""Lint: what is wrong with lyrics, captions, presets and manifests, found before a weight is loaded. No torch.

`rule.py` says what a rule is; `*_rules.py` hold rules and checks by subject; `check.py` runs them over one song,
`files.py` over files of every kind; `fix.py` mends. docs/lint.md is made from the registry by docs/generate_lint.py.
"""
