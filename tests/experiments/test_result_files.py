"""Result files: what was written is read, rows of the same keys are replaced, numbers stand on one line."""

import benchmarks.result_files as files


def test_rows_are_merged_and_lists_of_numbers_stand_on_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "CHECKOUT", tmp_path)
    rows = [
        {"model": "a", "fold": 0, "values": [0.5, -1e-7, 3], "tables": [[1, 2], [3, None]], "named": {"x": []}},
        {"model": "b", "fold": 0, "values": [], "tables": [], "named": {"x": ["one", [True, "two"]], "none": {}}},
    ]
    path = files.write_results("some.json", rows, tmp_path)
    assert files.read_results("some.json", tmp_path) == rows
    assert '"values": [0.5, -1e-07, 3],' in path.read_text()
    assert '"tables": [[1, 2], [3, null]],' in path.read_text()
    files.merge_results("some.json", [{"model": "a", "fold": 0, "values": [1]}], ("model", "fold"), tmp_path)
    assert files.read_results("some.json", tmp_path) == [{"model": "a", "fold": 0, "values": [1]}, rows[1]]
