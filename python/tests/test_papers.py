"""The pages about the papers: rows, outputs and pages agree, and no value of ours is without an output."""

import copy
import json
import re

import pytest

from papers import outputs, pages, rows
from papers.answers import Kind, answer, counted
from papers.reader import NoValue, value_of
from papers.run import run

COMMON = """
[paper.p]
title = "P"
source = "A paper"
hardware = "a board"
drawings = { "Figure 1" = "a design" }
figures = ["Table 1"]
[command.c]
run = "timeloom bench c --json"
minutes = 1
json = true
"""
MEASURED = """
[[row]]
figure = "Table 1"
what = "cost"
unit = "µs"
command = "c"
read = { metric = "cost_ns" }
per = 1000
why = "another machine"
paper = 4
"""
OUTPUT = {
    "command": "c",
    "run": ["timeloom", "bench", "c", "--json"],
    "quick": False,
    "date": "2026-01-01T00:00:00+00:00",
    "commit": "0" * 40,
    "changed": False,
    "seconds": 1.0,
    "exit": 0,
    "machine": {
        "processor": "a processor",
        "processors": 2,
        "kernel": "6.1",
        "stolen": 0.01,
        "idle": 0.5,
        "load_before": 0.1,
        "load_after": 0.2,
        "wake_up": {"median_ns": 1, "p99_ns": 2, "worst_ns": 3, "policy": "SCHED_FIFO"},
    },
    "versions": {},
    "errors": [],
    "records": [{"metric": "cost_ns", "value": 2000.0, "context": {"native_ns": 500, "hops": 3}}],
}


def listed(text):
    return rows.parse(COMMON, {"p": text})


def answers(text, found):
    parsed = listed(text)
    return [answer(row, parsed, found) for row in parsed.rows]


@pytest.fixture(scope="module")
def committed():
    return rows.load(), outputs.load()


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", text)]


def test_the_committed_pages_are_those_of_the_rows_and_outputs(committed):
    made = pages.documents(*committed)
    folder = rows.FILE.parent
    present = {path.name for kind in ("*.md", "*.svg") for path in folder.glob(kind)}
    advice = "`python -m papers write` writes them anew"
    assert present == set(made), advice
    for name, text in made.items():
        there = (folder / name).read_text()
        if name.endswith(".md"):
            assert there == text, f"{name}: {advice}"
        else:
            # Positions may differ in their last digits between processors.
            assert numbers(there) == pytest.approx(numbers(text), abs=0.5), f"{name}: {advice}"


def test_outputs_are_of_commands_in_the_list_and_have_no_path_of_a_machine(committed):
    listed_rows, found = committed
    for name, output in found.items():
        assert name in listed_rows.commands, f"output/{name}.json is of no command of rows.toml"
        command = listed_rows.commands[name]
        words = command.quick if output["quick"] else command.words
        assert output["run"] == words, f"output/{name}.json is of another command: run it again"
        assert not re.search(r"/(home|root|work|Users)/", json.dumps(output)), name


def test_each_row_that_is_measured_has_a_stamped_output_with_its_value(committed):
    listed_rows, found = committed
    for row in listed_rows.rows:
        for each in answer(row, listed_rows, found).answers:
            if each.kind is Kind.MEASURED:
                output = found[each.cell.command]
                assert output["exit"] == 0 or output.get("records") or output.get("files"), str(each.cell)
                assert each.ours == value_of(output, each.cell.read) / each.cell.per
            else:
                assert each.ours is None and each.reason, str(each.cell)


def test_counts_are_on_each_page_and_in_the_index(committed):
    listed_rows, found = committed
    index = (rows.FILE.parent / pages.INDEX).read_text()
    for name, paper in listed_rows.papers.items():
        counts = counted([answer(row, listed_rows, found) for row in listed_rows.of(name)])
        page = (rows.FILE.parent / f"{name}.md").read_text().replace("\n", " ")
        for kind, count in counts.items():
            assert f"**{count}** {kind.value}" in page
        line = " | ".join(str(counts[kind]) for kind in Kind)
        assert f"| [{paper.title}]({name}.md) | {line} |" in index


def test_a_row_with_a_command_is_missing_until_its_output_is_there():
    [[missing]] = [one.answers for one in answers(MEASURED, {})]
    assert missing.kind is Kind.MISSING and missing.ours is None
    assert "command exists, not yet measured: `timeloom bench c --json`" in missing.reason
    [[measured]] = [one.answers for one in answers(MEASURED, {"c": OUTPUT})]
    assert (measured.kind, measured.ours, measured.ratio) == (Kind.MEASURED, 2.0, 0.5)


def test_a_row_whose_value_is_not_in_the_output_is_missing_with_the_reason():
    other = copy.deepcopy(OUTPUT)
    other |= {"records": [], "exit": 3, "quick": True}
    [[missing]] = [one.answers for one in answers(MEASURED, {"c": other})]
    assert missing.kind is Kind.MISSING
    assert "(a quick run), which ended with 3: 0 lines have metric cost_ns" in missing.reason


def test_a_value_that_the_machine_lacks_cannot_be_had_if_the_command_succeeded():
    text = MEASURED + 'absent = "there is no counter"\n'
    without = {**OUTPUT, "records": []}
    assert [one.answers[0].kind for one in answers(text, {"c": without})] == [Kind.CANNOT]
    assert [one.answers[0].kind for one in answers(text, {"c": {**without, "exit": 1}})] == [Kind.MISSING]
    assert [one.answers[0].kind for one in answers(text, {})] == [Kind.MISSING]


def test_the_page_shows_paper_ours_ratio_reason_and_the_state_of_the_machine():
    page = pages.documents(listed(MEASURED), {"c": OUTPUT})["p.md"]
    assert "| cost | 4 µs | 2 µs | 0.5 | [`c`](#c) |" in page
    assert "- cost: another machine." in page
    assert "**1** measured, **0** input" in page
    assert "1.0 % stolen" in page and "(SCHED_FIFO)" in page


def test_an_input_is_never_compared():
    row = MEASURED.replace('command = "c"\nread = { metric = "cost_ns" }', 'input = "the model takes it"')
    [[taken]] = [one.answers for one in answers(row, {"c": OUTPUT})]
    assert (taken.kind, taken.ours, taken.ratio) == (Kind.INPUT, None, None)
    page = pages.documents(listed(row), {"c": OUTPUT})["p.md"]
    assert "| cost | 4 µs |  |  | *input*: the model takes it |" in page


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda text: text + "ours = 2\n", "unknown key `ours`"),
        (lambda text: text + 'input = "taken"\n', "exactly one of"),
        (lambda text: text + 'missing = ""\n', "exactly one of"),
        (lambda text: text.replace('command = "c"\n', ""), "belong together"),
        (lambda text: text.replace('command = "c"', 'command = "d"'), "there is no command.d"),
        (lambda text: text.replace('why = "another machine"\n', ""), "`why` is missing"),
        (lambda text: text.replace("Table 1", "Table 2"), "`Table 1` has no row"),
        (lambda text: text + text.replace("Table 1", "Figure 1"), "Figure 1 is a drawing and has rows"),
        (lambda text: text + 'plot = "x"\n', "there is no plot.x"),
    ],
)
def test_a_wrong_row_is_refused_with_the_reason(change, complaint):
    with pytest.raises(rows.BadRows, match=re.escape(complaint)):
        listed(change(MEASURED))


def test_cells_and_variants_share_the_keys_of_their_row():
    text = (
        MEASURED
        + """
each = [1, 2]
variants = [{ label = "a" }, { label = "b", read = { "context.hops" = "{key}" } }]
"""
    )
    parsed = listed(text)
    assert [cell.read for row in parsed.rows for cell in row.cells] == [
        {"metric": "cost_ns"},
        {"metric": "cost_ns"},
        {"metric": "cost_ns", "context.hops": "1"},
        {"metric": "cost_ns", "context.hops": "2"},
    ]
    assert [[cell.label for cell in row.cells] for row in parsed.rows] == [["a", "a"], ["b", "b"]]


def test_a_cell_that_states_its_kind_is_not_read():
    text = MEASURED + 'cells = [{ at = "x", input = "taken" }, { at = "y" }]\n'
    [one] = answers(text, {"c": OUTPUT})
    assert [each.kind for each in one.answers] == [Kind.INPUT, Kind.MEASURED]


def test_a_curve_counts_as_one_row_and_needs_all_its_points():
    text = MEASURED + 'curve = true\neach = [2, 3]\nread = { metric = "cost_ns", "context.hops" = "{key}" }\n'
    text = text.replace('read = { metric = "cost_ns" }\n', "", 1)
    assert counted(answers(text, {"c": OUTPUT}))[Kind.MISSING] == 1
    whole = copy.deepcopy(OUTPUT)
    whole["records"].append({"metric": "cost_ns", "value": 1, "context": {"hops": 2}})
    counts = counted(answers(text, {"c": whole}))
    assert (counts[Kind.MEASURED], counts[Kind.MISSING]) == (1, 0)


def test_a_json_line_is_selected_by_its_members():
    assert value_of(OUTPUT, {"metric": "cost_ns", "context.hops": "3"}) == 2000
    assert value_of(OUTPUT, {"metric": "cost_ns", "pointer": "/context/native_ns"}) == 500
    assert value_of(OUTPUT, {"metric": "cost_ns", "over": "/context/native_ns"}) == 4
    for read, complaint in [
        ({"metric": "other"}, "0 lines have metric other"),
        ({"metric": "cost_ns", "pointer": "/none"}, "nothing at /none"),
        ({"metric": "cost_ns", "pointer": "/metric"}, "no number at /metric"),
    ]:
        with pytest.raises(NoValue, match=complaint):
            value_of(OUTPUT, read)
    both = {"records": [*OUTPUT["records"], {"metric": "none_ns", "value": 500}, {"metric": "zero_ns", "value": 0}]}
    assert value_of(both, {"metric": "cost_ns", "base": "none_ns"}) == 4
    with pytest.raises(NoValue, match="the divisor is 0"):
        value_of(both, {"metric": "cost_ns", "base": "zero_ns"})
    twice = {"records": OUTPUT["records"] * 2}
    with pytest.raises(NoValue, match="2 lines have"):
        value_of(twice, {"metric": "cost_ns"})


def test_a_line_of_text_is_found_by_its_beginning():
    text = {"text": ["                Mbit/s  ratio", "tcp, undisturbed    7.1  1.0", "tcp, paused   7.0  0.99  0"]}
    assert value_of(text, {"line": "tcp, paused", "word": 1}) == 0.99
    with pytest.raises(NoValue, match="word 3 after"):
        value_of(text, {"line": "tcp, paused", "word": 3})
    with pytest.raises(NoValue, match="2 lines begin"):
        value_of(text, {"line": "tcp", "word": 0})


def test_a_column_is_read_by_its_row_or_by_the_step_of_a_staircase():
    # Two samples in each of the seven steps.
    lines = [f"{place},{place // 2},{2 ** (place // 2)}" for place in range(14)]
    output = {"files": {"a.csv": "\n".join(["x,step,flows", *lines]) + "\n"}}
    read = {"file": "a.csv", "column": "step"}
    assert [value_of(output, {**read, "flows": str(2**step)}) for step in range(7)] == list(range(7))
    assert value_of(output, {**read, "row": 5}) == 2
    assert value_of(output, {**read, "greatest": True}) == 6
    assert value_of(output, {**read, "column": "flows", "over": "step", "flows": 64}) == 64 / 6
    output["files"]["a.csv"] = "x,step\n1,NaN\n"
    with pytest.raises(NoValue, match="was not measured"):
        value_of(output, read)


def test_an_output_without_its_stamp_is_refused(tmp_path):
    bare = {key: value for key, value in OUTPUT.items() if key != "machine"}
    outputs.store(bare, tmp_path)
    with pytest.raises(outputs.BadOutput, match="c.json has no `machine`"):
        outputs.load(tmp_path)
    outputs.store(OUTPUT, tmp_path)
    assert outputs.load(tmp_path) == {"c": OUTPUT}


def test_a_run_stores_the_output_and_the_files_of_a_command_with_its_stamp(tmp_path):
    program = """import json, sys
print(json.dumps({"metric": "cost_ns", "value": 7}))
print("else")
print("told", file=sys.stderr)
open(sys.argv[1] + "/a.csv", "w").write("x,y")
sys.exit(3)"""
    words = ["python", "-c", program, "{out}"]
    command = rows.Command("c", words, [], minutes=1, json=True, files=["*.csv"], versions=["no-such-program -v"])
    output = run(command, tmp_path / "timeloom", quick=False, scratch=tmp_path)
    assert set(outputs.STAMP) <= set(output)
    assert (output["exit"], output["errors"], output["run"]) == (3, ["told"], words)
    assert output["records"] == [{"metric": "cost_ns", "value": 7}]
    assert output["files"] == {"a.csv": "x,y"}
    assert output["versions"] == {"no-such-program -v": "not installed"}
    assert 0 <= output["machine"]["stolen"] <= 1 and output["machine"]["wake_up"]["median_ns"] > 0


def test_a_command_that_cannot_be_started_has_an_output_that_says_so(tmp_path):
    command = rows.Command("c", ["./no-such-program"], [], minutes=1, json=True, files=[], versions=[])
    output = run(command, tmp_path / "timeloom", quick=False, scratch=tmp_path)
    assert (output["exit"], output["records"]) == (127, [])
    assert output["errors"] == ["./no-such-program cannot be started: No such file or directory"]
