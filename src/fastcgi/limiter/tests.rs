#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::net::SocketAddr;

use super::*;

const LONG: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn those_who_wait_are_served_in_order() {
    let limiter = Limiter::new(Some(1));
    let first = limiter.acquire(LONG, 10).await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..5 {
        let (own, served) = (Arc::clone(&limiter), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let _slot = own.acquire(LONG, 10).await.unwrap();
            served.lock().push(number);
        }));
        while limiter.waiting() <= number {
            tokio::task::yield_now().await;
        }
    }
    drop(first);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock(), [0, 1, 2, 3, 4]);
    assert_eq!((limiter.in_flight(), limiter.waiting()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_queue_and_the_wait_are_bounded() {
    let limiter = Limiter::new(Some(1));
    let slot = limiter.acquire(LONG, 0).await.unwrap();
    assert_eq!(limiter.acquire(LONG, 0).await.unwrap_err(), Busy::QueueFull);
    let wait = Duration::from_secs(5);
    assert_eq!(limiter.acquire(wait, 1).await.unwrap_err(), Busy::TimedOut);
    assert_eq!((limiter.in_flight(), limiter.waiting()), (1, 0));
    drop(slot);
    assert!(limiter.acquire(wait, 0).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn leaving_the_queue_gives_the_place_back() {
    let limiter = Limiter::new(Some(1));
    let slot = limiter.acquire(LONG, 0).await.unwrap();
    let waiting = timeout(Duration::from_secs(1), limiter.acquire(LONG, 1)).await;
    assert!(waiting.is_err());
    assert_eq!(limiter.waiting(), 0);
    drop(slot);
    assert!(limiter.acquire(LONG, 0).await.is_ok());
}

#[tokio::test]
async fn without_a_limit_nobody_waits() {
    let limiter = Limiter::new(None);
    let mut slots = Vec::new();
    for _ in 0..1000 {
        slots.push(limiter.acquire(Duration::ZERO, 0).await.unwrap());
    }
    assert_eq!(limiter.in_flight(), 1000);
}

#[tokio::test]
async fn a_limit_changes_while_requests_are_in_flight() {
    let limiter = Limiter::new(None);
    let mut slots = Vec::new();
    for _ in 0..4 {
        slots.push(limiter.acquire(Duration::ZERO, 0).await.unwrap());
    }
    limiter.reconfigure(Some(2));
    assert!(limiter.acquire(Duration::ZERO, 0).await.is_err());
    slots.truncate(2);
    assert!(limiter.acquire(Duration::ZERO, 0).await.is_err());
    slots.truncate(1);
    slots.push(limiter.acquire(Duration::ZERO, 0).await.unwrap());
    limiter.reconfigure(Some(3));
    slots.push(limiter.acquire(Duration::ZERO, 0).await.unwrap());
    assert!(limiter.acquire(Duration::ZERO, 0).await.is_err());
    limiter.reconfigure(Some(1));
    limiter.reconfigure(Some(4));
    slots.push(limiter.acquire(Duration::ZERO, 0).await.unwrap());
    assert!(limiter.acquire(Duration::ZERO, 0).await.is_err());
    limiter.reconfigure(None);
    slots.push(limiter.acquire(Duration::ZERO, 0).await.unwrap());
    slots.clear();
    limiter.reconfigure(Some(2));
    assert_eq!(limiter.permits.available_permits(), 2);
}

#[tokio::test]
async fn an_address_keeps_its_limiter_across_reloads() {
    let limiters = Limiters::new();
    let address = |port| Address::Tcp(SocketAddr::from(([127, 0, 0, 1], port)));
    let before = limiters.for_address(&address(9000), Some(1));
    let _slot = before.acquire(Duration::ZERO, 0).await.unwrap();
    let after = limiters.for_address(&address(9000), Some(2));
    assert!(Arc::ptr_eq(&before, &after));
    assert_eq!((after.limit(), after.in_flight()), (Some(2), 1));
    let other = limiters.for_address(&address(9001), None);
    assert!(!Arc::ptr_eq(&before, &other));
    assert_eq!(limiters.in_flight_and_waiting(), (1, 0));
}
