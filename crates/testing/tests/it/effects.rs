//! Effects that are counted.

use steadfast::testing::Effects;

#[tokio::test]
async fn an_effect_is_waited_for_in_memory_and_in_a_file() {
    let dir = std::env::temp_dir().join(format!("steadfast-effects-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    for effects in [Effects::new(), Effects::file(dir.join("effects"))] {
        assert_eq!(effects.lines(), [""; 0]);
        let other = effects.clone();
        let adding = tokio::spawn(async move {
            assert_eq!(other.add("charge"), 1);
            tokio::task::yield_now().await;
            assert_eq!(other.add("charge"), 2);
            other.add("ship");
        });
        effects.wait_for("charge", 2).await;
        adding.await.unwrap();
        assert_eq!(effects.lines(), ["charge", "charge", "ship"]);
        effects.assert_exactly([("ship", 1), ("charge", 2)]);
    }
    // What was written in part is not there yet.
    std::fs::write(dir.join("torn"), "charge\nshi").unwrap();
    assert_eq!(Effects::file(dir.join("torn")).lines(), ["charge"]);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
#[should_panic(expected = "in their order: [\"charge\", \"charge\"]")]
fn a_wrong_count_shows_what_happened() {
    let effects = Effects::new();
    effects.add("charge");
    effects.add("charge");
    effects.assert_exactly([("charge", 1)]);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "for the effect \"charge\" to happen 1 times")]
async fn an_effect_that_does_not_come_is_named() {
    Effects::new().wait_for("charge", 1).await;
}
