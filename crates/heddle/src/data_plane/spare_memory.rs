//! Gives back to the machine what a burst of clients left with the allocator.

use std::time::Duration;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(10);

/// Less is left to those who come next.
const SPARE_BYTES_MIN: usize = 16 << 20;

/// Looks again and again; what is spare at two looks in a row is given back. Ends never.
pub async fn give_back() {
    let mut was_spare = false;
    loop {
        tokio::time::sleep(LOOK).await;
        // It takes the allocator's locks, and milliseconds: not on the control thread.
        let looked = tokio::task::spawn_blocking(move || {
            let is_spare = reactor::spare_bytes(SPARE_BYTES_MIN) > SPARE_BYTES_MIN;
            if is_spare && was_spare {
                reactor::give_spare_back();
            }
            is_spare
        });
        was_spare = looked.await.unwrap_or(false);
    }
}
