//! Notifications.

use serde_json::json;

use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_is_waited_for_and_shown_until_it_is_acknowledged() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let body = json!({"command": "wait", "description": "the build"});
    let process = scene.start_with(&token, &body).await;
    let empty = scene.get(&token, "/v1/notifications").await.json();
    assert_eq!(empty["notifications"], json!([]));
    let played = scene.host.runner.last().unwrap();
    let (page, ()) = tokio::join!(scene.get(&token, "/v1/notifications?wait_ms=15000"), played.exit(7));
    let page = page.json();
    let first = &page["notifications"][0];
    assert_eq!((&first["process_id"], &first["exit_code"]), (&json!(process), &json!(7)));
    assert_eq!((&first["delivered"], &first["description"]), (&json!(false), &json!("the build")));
    let again = scene.get(&token, "/v1/notifications").await.json();
    assert_eq!(again["notifications"][0]["delivered"], json!(true));
    assert_eq!(again["notifications"][0]["id"], first["id"]);
    let behind = format!("/v1/notifications?after={}", first["number"]);
    assert_eq!(scene.get(&token, &behind).await.json()["notifications"], json!([]));

    let ack = format!("/v1/notifications/{}/ack", first["id"].as_str().unwrap());
    for _ in 0..2 {
        assert_eq!(scene.post(&token, &ack, &json!({})).await.status, 204);
    }
    assert_eq!(scene.get(&token, "/v1/notifications").await.json()["notifications"], json!([]));
    // Nor does it travel with a result.
    let started = scene.post(&token, "/v1/processes", &json!({"command": "wait"})).await.json();
    assert!(started["result"].get("notifications").is_none());
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_nothing_ends_in_its_time() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let page = scene.get(&token, "/v1/notifications?wait_ms=50").await;
    assert_eq!((page.status, &page.json()["more"]), (200, &json!(false)));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inbox_that_cannot_be_written_can_be_read() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let process = scene.start(&token, "hello").await;
    scene.ended(&token, &process).await;
    let session = scene.data_dir().join("sessions").join(token.owner.session.to_string());
    let database = rusqlite::Connection::open(session.join("journal.sqlite3")).unwrap();
    let full =
        "CREATE TRIGGER full BEFORE UPDATE ON notification BEGIN SELECT RAISE(ABORT, 'disk full'); END";
    database.execute_batch(full).unwrap();
    for _ in 0..2 {
        let page = scene.get(&token, "/v1/notifications?wait_ms=15000").await;
        assert_eq!(page.status, 200, "{}", page.text());
        let first = &page.json()["notifications"][0];
        assert_eq!((&first["process_id"], &first["delivered"]), (&json!(process), &json!(false)));
    }
    database.execute_batch("DROP TRIGGER full").unwrap();
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_news_ends_with_its_loop_and_without_what_the_closing_made() {
    let scene = Scene::begin().await;
    let first = scene.session().await;
    for runs in [true, false] {
        let token = scene.another_loop(&first).await;
        if runs {
            scene.start(&token, "wait").await;
        }
        let path = format!("/v1/sessions/{}/loops/{}", token.owner.session, token.owner.loop_id);
        // Answered long before its time, and in the same way where the end comes first.
        let (page, ()) = tokio::join!(scene.get(&token, "/v1/notifications?wait_ms=30000"), async {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            assert_eq!(scene.delete(scene.admin(), &path).await.status, 204);
        });
        assert_eq!((page.status, &*page.code()), (401, "unauthenticated"), "{}", page.text());
    }
    // Those of other loops wait on.
    let (page, ()) = tokio::join!(scene.get(&first, "/v1/notifications?wait_ms=400"), async {
        let token = scene.another_loop(&first).await;
        let path = format!("/v1/sessions/{}/loops/{}", token.owner.session, token.owner.loop_id);
        assert_eq!(scene.delete(scene.admin(), &path).await.status, 204);
    });
    assert_eq!((page.status, &page.json()["notifications"]), (200, &json!([])));
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_news_ends_with_its_session() {
    let scene = Scene::begin().await;
    let token = scene.session().await;
    let session = format!("/v1/sessions/{}", token.owner.session);
    // Answered within what a test waits for anything, which is less than it asks for. Where the end comes first, there is
    // no wait.
    let (page, ()) = tokio::join!(scene.get(&token, "/v1/notifications?wait_ms=30000"), async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert_eq!(scene.delete(scene.admin(), &session).await.status, 204);
    });
    assert!([200, 401].contains(&page.status), "{}", page.text());
    scene.end().await;
}
