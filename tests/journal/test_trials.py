"""Each trial of the steering repo's journal cases is answered by a test of ours, named here."""

import importlib
import json

import pytest

from tests.support.shared import shared_path

ANSWERS = {
    "J02": ("tests.journal.test_store", "test_a_wal_cut_at_any_byte_opens_with_a_prefix_reports_the_cut_and_goes_on"),
    "J03": ("tests.journal.test_store", "test_a_flipped_bit_in_the_middle_of_the_wal_stops_and_removes_nothing"),
    "J04": ("tests.journal.test_store", "test_a_last_block_of_zeros_or_ones_is_a_torn_tail"),
    "J05": ("tests.attacks.test_journal_order", "test_a_tail_cut_off_with_its_checkpoints_is_found_by_whoever_saw_it"),
    "J06": ("tests.attacks.test_journal_order", "test_two_swapped_neighbours_are_named_as_order"),
    "J07": (
        "tests.attacks.test_journal_replace",
        "test_an_entry_copied_into_another_partition_with_its_valid_signature_is_refused",
    ),
    "J10": ("tests.journal.test_power_loss", "test_kill_minus_nine_at_any_moment_loses_nothing_acknowledged"),
    "J12": ("tests.journal.test_service", "test_a_deadline_that_passes_says_that_the_append_may_still_be_sealed"),
    "J13": (
        "tests.journal.test_contract",
        "test_an_append_id_that_was_used_for_other_events_is_a_conflict_not_a_success",
    ),
    "J14": ("tests.journal.test_contract", "test_of_two_writers_with_one_expectation_one_wins_and_no_position_is_lost"),
    "J15": ("tests.journal.test_store", "test_the_lock_of_a_killed_process_is_free"),
    "J16": (
        "tests.journal.test_power_loss",
        "test_a_full_disk_acknowledges_nothing_keeps_reading_and_goes_on_when_there_is_room",
    ),
    "J17": ("tests.journal.test_store", "test_a_reader_in_another_process_sees_only_sealed_entries"),
    "J18": ("tests.journal.test_contract", "test_clocks_may_go_backwards_and_positions_rule"),
    "J24": (
        "tests.journal.test_archive_and_backup",
        "test_an_older_copy_under_something_newer_is_refused_with_the_reason",
    ),
    "J28": ("tests.journal.test_contract", "test_payloads_are_bytes_of_any_kind_within_the_bound"),
    "J29": ("tests.journal.test_scale", "test_a_hundred_thousand_partitions_open_at_once_and_read_one_quickly"),
}
ELSEWHERE = {  # what events mean, and what is derived of them, is other planes' to show
    "J09": "facts",
    "J19": "projector",
    "J20": "facts",
    "J21": "projector",
    "J22": "projector",
    "J23": "artifacts",
}


def test_every_trial_is_answered_here_or_by_the_plane_that_it_is_about():
    trials = [json.loads(line)["id"] for line in shared_path("cases", "journal_trials.jsonl").read_text().splitlines()]
    assert set(trials) == ANSWERS.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize(("module", "name"), ANSWERS.values())
def test_the_answer_is_a_test_that_exists(module: str, name: str):
    assert callable(getattr(importlib.import_module(module), name))
