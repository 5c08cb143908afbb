from pathlib import Path

import pytest

from timeloom.plant import PlantError
from timeloom.profiles import HOLD, LINEAR, Profile, read_profile
from worlds import CASE, SECOND, program


def test_linear_between_points_and_constant_outside():
    profile = Profile([0, 100, 200], [1.0, 3.0, 0.0], LINEAR)
    assert [profile.at(t) for t in (-5, 0, 50, 100, 150, 200, 999)] == [1.0, 1.0, 2.0, 3.0, 1.5, 0.0, 0.0]


def test_hold_keeps_each_value_until_the_next_point():
    profile = Profile([0, 100], [1.0, 3.0], HOLD)
    assert [profile.at(t) for t in (0, 99, 100)] == [1.0, 1.0, 3.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t_s,kw\n0,1\n0,2\n", "increase"),
        ("t_s,kw\n", "at least one"),
        ("t_s,kw\n0,nan\n", ":2: not a finite"),
        ("# made\nt_s,kw\n0,1\n1,x\n", ":4: a row needs numbers"),
        ("t_s,kw\n0\n", ":2: a row needs numbers"),
        ("t_s,mw\n0,1\n", ":1: there is no column 'kw'"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, text: str, message: str):
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(PlantError, match=message):
        read_profile(tmp_path / "p.csv", "kw")
    with pytest.raises(PlantError, match="cannot read"):
        read_profile(tmp_path / "absent.csv", "kw")


def test_the_files_in_the_tree_are_those_the_script_writes(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["make_profiles.py", "--directory", str(tmp_path)])
    program("make_profiles").main()
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == ["load_611.csv", "load_652.csv", "load_692.csv", "wind.csv"]
    for name in written:
        assert (tmp_path / name).read_text() == (CASE / name).read_text(), name


def test_the_wind_has_the_shape_of_the_case():
    wind = read_profile(CASE / "wind.csv", "kw")
    kw = {t / 10: wind.at(t * SECOND // 10) for t in range(901)}
    assert 1200 <= min(kw.values()) < 1300 and 3600 < max(kw.values()) <= 3700
    assert max(kw, key=kw.__getitem__) == pytest.approx(18.7, abs=0.3)
