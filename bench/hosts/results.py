# SPDX-License-Identifier: Apache-2.0
"""The file of figures (--json): a line for each row while rows are measured, so that nothing is lost when that is broken off; one object
at the end. --resume reads both."""
import json
import os


class Unusable(Exception):
    """The file has something else, or what must not be overwritten."""


def _read_lines(text):
    """What was killed while it wrote has left a part of a line."""
    whole = text[:text.rfind("\n") + 1]
    return [json.loads(line) for line in whole.splitlines()]


def _read(path):
    """The rows in it, and whether all that were wanted are."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    if not text:
        return [], True
    try:
        return json.loads(text)["rows"], True
    except (ValueError, TypeError, KeyError):
        pass  # lines
    try:
        rows = _read_lines(text)
        if all("name" in row for row in rows):
            return rows, False
    except (ValueError, TypeError):
        pass
    raise Unusable(f"{path} has no figures of this benchmark")


class Results:
    """`rows` are those that were measured, before and now. Without a path they are kept in memory alone."""

    def __init__(self, path, resume):
        self.path, self.rows, self.file = path, [], None
        if path is None:
            return
        before, ended = _read(path)
        if resume:
            self.rows = before
        elif not ended:
            raise Unusable(f"{path} has {len(before)} rows of a run that was broken off: --resume goes on; or remove it")

    def names(self):
        return {row["name"] for row in self.rows}

    def _replace(self, text):
        new = self.path.with_name(self.path.name + ".new")
        new.write_text(text, encoding="utf-8")
        os.replace(new, self.path)

    def add(self, row):
        self.rows.append(row)
        if self.path is None:
            return
        if self.file is None:
            self._replace("".join(json.dumps(each) + "\n" for each in self.rows))
            self.file = self.path.open("a", encoding="utf-8")
        else:
            self.file.write(json.dumps(row) + "\n")
            self.file.flush()

    def end(self):
        if self.file is not None:
            self.file.close()
        if self.path is not None:
            self._replace(json.dumps({"rows": self.rows}, indent=2) + "\n")
