//! Where a server is wrong by itself, and says so when it is asked in another way.
//!
//! Which plan a server takes depends on its statistics, which it gathers when it likes. The one server may be
//! wrong where the farm is right, and the farm's servers where the one is right. A switch of the optimizer must
//! never change an answer: where the two agree without the faulty plan, a server contradicted itself.

/// A fault of an engine's optimizer.
struct Fault {
    mariadb: bool,
    /// One of these stands in the text.
    words: [&'static str; 2],
    /// Keeps a server from the faulty plan.
    switch: &'static str,
}

const FAULTS: [Fault; 2] = [
    // MySQL 8.0 loses a condition of an IN-subquery that it materializes on the inner side of an outer join
    // (its bugs 105637 and 107607, verified there and open): `items LEFT JOIN v` finds rows of a view
    // `… WHERE referrer IN (SELECT customer_id FROM orders WHERE total > 50)` without such an order.
    Fault {
        mariadb: false,
        words: ["LEFT JOIN", "RIGHT JOIN"],
        switch: "materialization=off",
    },
    // MariaDB 10.11 loses rows of a derived table of groups that it splits, next to a semi-join whose
    // duplicates it weeds out: `… FROM v_given t WHERE EXISTS (SELECT 1 FROM visits …)` has one row of
    // eleven, and all eleven inside a derived table.
    Fault {
        mariadb: true,
        words: ["EXISTS (", " IN ("],
        switch: "split_materialized=off",
    },
];

/// True where a known fault of the engine may show in the text, and nothing `differs` as soon as no server may
/// take the faulty plan. `tell` sends a SET to every server that is asked.
pub fn contradicts_itself<S>(
    text: &str,
    mariadb: bool,
    servers: &mut S,
    tell: impl Fn(&mut S, &str),
    differs: impl FnOnce(&mut S) -> bool,
) -> bool {
    let may_show =
        |it: &&Fault| it.mariadb == mariadb && it.words.iter().any(|word| text.contains(word));
    let Some(fault) = FAULTS.iter().find(may_show) else {
        return false;
    };
    let switch = fault.switch;
    tell(
        servers,
        &format!("SET @plans = @@optimizer_switch, optimizer_switch = '{switch}'"),
    );
    let differs = differs(servers);
    tell(servers, "SET optimizer_switch = @plans");
    !differs
}
