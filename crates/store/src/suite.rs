//! What every store must do, as tests that a store's own crate runs.
//!
//! A store's tests say how to open it, and [`store_suite!`](crate::store_suite) makes one test of
//! each behaviour:
//!
//! ```
//! use steadfast_store::{Disk, Memory, store_suite, suite::Fixture};
//!
//! struct Ram(Disk);
//!
//! impl Fixture for Ram {
//!     type Store = Memory;
//!
//!     async fn open(&self) -> Memory {
//!         self.0.open()
//!     }
//!
//!     async fn kill(&self, handle: Memory) {
//!         handle.kill();
//!     }
//! }
//!
//! store_suite!(Ram(Disk::new()));
//! # fn main() {}
//! ```
//!
//! The macro needs `tokio` with its test runtime. A case that fails panics, so the lint against
//! `unwrap` has no place here.

#![allow(clippy::unwrap_used)]

pub mod activity;
pub mod cancel;
pub mod child;
pub mod claim;
pub mod desk;
pub mod halt;
pub mod mail;
mod make;
pub mod question;
pub mod read;
pub mod session;
pub mod start;
pub mod state;
pub mod sweep;
pub mod turn;

use crate::Store;

/// How the suite opens a store. Each test makes a fixture of its own, on an empty store.
pub trait Fixture {
    /// The store.
    type Store: Store;

    /// Another handle on the same store, with a desk of its own.
    fn open(&self) -> impl Future<Output = Self::Store>;

    /// Makes the handle's desk dead, as if its process had been killed: nothing is given back.
    fn kill(&self, handle: Self::Store) -> impl Future<Output = ()>;
}

/// Makes a test of every behaviour in the [suite](crate::suite). Takes an expression that makes a
/// [`Fixture`](crate::suite::Fixture); it is evaluated anew in each test.
#[macro_export]
macro_rules! store_suite {
    ($fixture:expr) => {
        $crate::store_suite! { @tests $fixture;
            start {
                a_started_task_reads_back_whole,
                a_started_task_is_seen_by_other_handles,
                every_handle_has_a_desk_of_its_own,
                numbers_rise,
                a_task_that_is_not_held_is_ready,
                a_held_task_is_not_ready,
                a_start_in_the_future_waits_for_it,
                a_start_that_is_due_begins_at_once,
                a_task_that_has_ended_before_it_began_is_only_found,
                an_id_is_used_once,
                a_removed_id_can_be_used_again,
                a_dedup_key_starts_one_task,
                a_dedup_key_is_of_one_principal,
                a_dedup_key_comes_before_the_id,
                a_dedup_key_outlives_a_task_that_expired_or_is_gone,
                a_task_is_found_by_its_dedup_key,
                a_freed_dedup_key_can_be_used_again,
                who_asked_before_a_key_was_freed_finds_its_task,
                what_was_asked_for_too_long_ago_is_refused,
                a_task_has_the_key_of_the_one_it_is_instead_of,
                a_start_finds_that_it_was_taken_back_under_another_key,
                a_cancel_frees_the_key_if_it_says_so,
                a_bound_task_says_whose_it_is,
            }
            claim {
                a_claimed_task_comes_with_history_and_inbox,
                a_task_is_claimed_once,
                a_claim_takes_no_more_than_its_limit,
                a_claim_takes_only_its_tools_and_versions,
                a_task_without_a_version_gets_that_of_its_first_claim,
                owners_take_turns_within_a_claim,
                owners_take_turns_from_claim_to_claim,
                a_task_that_yields_goes_behind_the_others,
                a_parked_task_is_ready_when_it_is_due,
                a_parked_task_without_a_wake_waits_for_mail,
                the_next_wake_is_the_earliest,
                a_due_task_that_nobody_can_run_does_not_hide_the_next_wake,
                what_a_desk_holds_is_listed,
                other_handles_are_told_of_changes,
            }
            turn {
                a_turn_appends_and_changes_the_view,
                a_turn_must_continue_the_history,
                a_stale_lease_is_fenced,
                a_refused_guard_writes_nothing_at_all,
                of_two_failing_guards_the_first_is_named,
                effects_see_those_before_them,
                an_ended_task_keeps_its_end,
                an_ended_task_leaves_nothing_open,
                an_ended_task_can_be_kept_for_its_last_work,
                an_ended_task_hears_of_its_own_activities,
                a_restart_begins_anew,
                a_restart_leaves_no_question_to_expire,
                an_expired_task_can_take_its_turn,
            }
            mail {
                messages_are_read_in_order_and_consumed,
                a_task_parked_with_mail_is_ready,
                mail_does_not_begin_a_task_before_its_time,
                a_message_is_refused_in_the_order_of_the_checks,
                early_mail_is_kept_for_the_start,
                early_mail_is_for_a_task_of_the_sender,
                early_mail_to_a_task_of_somebody_else_is_kept_the_same,
                early_mail_is_kept_until_its_time,
                early_mail_reaches_children_and_later_starts,
                a_task_sends_to_tasks_of_its_principal,
            }
            question {
                questions_are_in_the_order_they_were_asked,
                an_answer_closes_the_question_and_wakes_the_task,
                a_task_is_read_with_its_open_questions,
                a_question_is_answered_once,
                an_answer_is_refused_in_the_order_of_the_checks,
                closing_a_question_never_fails,
                an_answer_and_a_deadline_exclude_each_other,
            }
            cancel {
                a_cancelled_task_is_fenced_and_ready,
                a_cancelled_task_is_its_holders_until_that_puts_it_back,
                a_cancelled_task_of_a_dead_desk_is_adopted,
                a_cancel_says_whether_this_desk_held_it,
                a_task_is_cancelled_wherever_it_is,
                a_cancelled_task_leaves_nothing_open,
                a_cancel_is_refused_in_the_order_of_the_checks,
                a_cancelled_child_tells_its_parent,
                a_task_cancels_others_in_its_turn,
            }
            halt {
                a_suspended_task_is_not_ready,
                a_suspended_task_stays_suspended_until_its_holder_lets_go,
                a_suspended_task_that_yields_waits_for_its_resume,
                a_held_task_is_resumed_in_place,
                a_suspended_task_can_end,
                a_suspended_start_waits_for_its_time_again,
                a_stuck_task_waits_for_its_resume,
                halting_is_refused_in_the_wrong_status,
                a_stuck_task_can_be_suspended,
            }
            child {
                a_child_is_started_with_the_turn,
                a_child_that_ends_tells_its_parent,
                a_child_that_nobody_waits_for_tells_nobody,
                a_child_whose_id_or_dedup_key_is_taken_is_not_started,
                a_parent_that_parks_with_a_taken_child_id_is_ready,
            }
            session {
                a_session_is_there_for_all,
                a_session_is_over_at_its_time,
                a_session_is_kept_as_long_as_it_is_used,
                a_session_is_changed_by_who_knows_it_as_it_is,
                who_is_alone_knows_that_nothing_was_changed,
                a_session_that_was_ended_stays_so,
                there_are_no_more_sessions_than_allowed,
                the_state_of_a_session_goes_with_it,
                a_notice_is_read_by_all,
                the_number_of_a_notice_is_never_used_again,
            }
            state {
                a_version_never_goes_back,
                scopes_and_keys_are_apart,
                a_swap_of_an_old_version_is_refused,
                a_tasks_own_state_is_removed_with_it,
                who_watches_a_key_is_told_of_changes,
                a_writer_that_watches_is_told_too,
                a_notice_that_still_lies_there_is_not_doubled,
                a_notice_comes_again_behind_one_that_was_read,
                who_no_longer_watches_is_not_told,
            }
            activity {
                an_activity_is_claimed_once,
                activities_are_claimed_by_name_in_order,
                an_ended_activity_is_gone_and_its_task_told,
                a_stale_activity_lease_is_fenced,
                a_retried_activity_is_due_later,
                an_activity_with_an_overdue_heartbeat_is_taken_over,
                a_heartbeat_can_be_called_off,
                an_activity_that_nobody_can_run_does_not_hide_the_next_wake,
                a_released_activity_is_ended_from_outside,
                a_released_activity_can_be_overdue,
                an_activity_is_cancelled_wherever_it_is,
                a_halted_task_hears_of_its_activity_when_resumed,
                activity_numbers_rise,
            }
            desk {
                a_desk_is_dead_when_its_process_is_gone,
                a_desk_with_only_an_activity_is_dead_too,
                what_lies_on_a_dead_desk_is_adopted,
                a_dead_desk_is_adopted_once,
                a_live_desk_is_not_adopted,
                a_task_that_kills_its_processes_is_set_aside,
                progress_forgets_deaths,
                a_suspended_task_on_a_dead_desk_waits_for_its_resume,
                an_ended_task_on_a_dead_desk_keeps_its_status,
                a_cancel_forgets_deaths,
                closing_gives_everything_back,
                what_is_bound_to_a_closed_desk_is_abandoned_at_once,
                a_closed_handle_changes_nothing,
                what_was_acknowledged_outlives_the_process,
            }
            read {
                a_task_exists_for_its_principal_and_for_operators,
                a_task_expires_at_its_time,
                lifetimes_of_any_length_are_kept,
                a_number_that_is_gone_has_nothing,
                a_list_meets_its_filter,
                a_list_has_rows_without_their_end,
                a_list_is_read_in_pages,
                the_last_page_says_so,
                a_history_is_read_in_pages,
                tasks_are_counted_by_status,
                a_status_is_listed_wherever_the_task_lies,
            }
            sweep {
                a_purged_task_is_gone,
                a_purge_is_refused_in_the_order_of_the_checks,
                a_sweep_removes_ended_tasks_that_expired,
                a_sweep_keeps_to_its_limit,
                a_sweep_reports_what_expired_and_runs,
                a_sweep_leaves_ended_tasks_with_work_to_do,
                a_sweep_removes_kept_mail,
            }
        }
    };
    (@tests $fixture:expr; $($theme:ident { $($case:ident,)* })*) => {
        $($crate::store_suite! { @theme $fixture; $theme $($case)* })*
    };
    (@theme $fixture:expr; $theme:ident $($case:ident)*) => {
        mod $theme {
            // The fixture is named as where the suite is called.
            #[allow(unused_imports)]
            use super::*;

            $(
                #[::tokio::test]
                async fn $case() {
                    $crate::suite::$theme::$case(&$fixture).await;
                }
            )*
        }
    };
}
