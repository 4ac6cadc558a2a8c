//! The verdicts about the claims, read as a reader reads them: each sentence must agree with the
//! values beside it and with the parameters.

use std::collections::HashSet;

use tenure_lab::paper::{Claim, ClaimRow, Parameters, Point, Value};

/// A sentence of a verdict.
#[derive(Debug)]
struct Sentence<'a> {
    /// What it says about the gain, if the claim is one.
    gain: Option<&'a str>,
    /// The measured value minus the printed one; `None` if the election never ends.
    difference: Option<f64>,
    /// The parts of the difference, if there are several.
    parts: Vec<f64>,
    has_reason: bool,
    is_short: bool,
}

impl<'a> Sentence<'a> {
    fn of(text: &'a str) -> Self {
        let (gain, text) = match text.split_once("; the gain is ") {
            Some((gain, rest)) => (Some(gain), rest),
            None => (None, text),
        };
        let end = text.find([',', ':', ';']).unwrap_or(text.len());
        let words: Vec<&str> = text[..end].split(' ').collect();
        let number = |text: &str| text.parse::<f64>().expect("a number");
        let difference = match words[..] {
            ["never", "ends"] => None,
            ["as", "printed"] => Some(0.0),
            [more, "more", "than", "printed"] => Some(number(more)),
            [less, "less", "than", "printed"] => Some(-number(less)),
            _ => panic!("{text:?}"),
        };
        let parts = text[end..].split(" because ").map(|before| {
            let (_, last) = before.rsplit_once(' ')?;
            last.starts_with(['+', '-']).then(|| number(last))
        });
        Self {
            gain,
            difference,
            parts: parts.flatten().collect(),
            has_reason: text.contains(" because "),
            is_short: text.contains(" is short here: "),
        }
    }
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-4
}

/// Checks the sentence about a measured value.
fn check(point: &Point, text: &str, measured: Value, correct: Value) {
    let sentence = Sentence::of(text);
    let context = || format!("{text:?} about {measured:?} in {point:#?}");
    // A number with the error of a conversion, such as 33.300000000000004.
    assert!(!text.contains("00000"), "{}", context());
    let difference = measured.number().map(|it| it - point.printed);
    match (difference, sentence.difference) {
        (None, None) => {}
        (Some(is), Some(said)) => assert!(same(is, said), "{}", context()),
        _ => panic!("{}", context()),
    }
    if let Some(said) = sentence.difference {
        // A sentence that says how far a value is off does not say "as printed", and vice versa.
        assert_eq!(
            same(said, 0.0),
            text.contains("as printed"),
            "{}",
            context()
        );
        let parts: f64 = sentence.parts.iter().sum();
        let has_parts = !sentence.parts.is_empty();
        assert!(!has_parts || same(parts, said), "{}", context());
    }
    if let Some(gain) = sentence.gain {
        let word = match measured.number().expect("a gain") {
            gain if gain > 1e-6 => "faster",
            gain if gain < -1e-6 => "slower",
            _ => "not faster",
        };
        assert_eq!(gain, format!("Bully_FD is {word}"), "{}", context());
    }
    let is_as_printed = sentence.difference.is_some_and(|it| same(it, 0.0));
    if sentence.is_short {
        assert!(!sentence.has_reason, "{}", context());
    } else {
        assert!(is_as_printed || sentence.has_reason, "{}", context());
        let (is, should) = (measured.number(), correct.number());
        assert!(
            is == should || same(is.unwrap_or(-1.0), should.unwrap_or(-1.0)),
            "{}",
            context()
        );
    }
}

/// What must be true of the parameters if a verdict contains these words.
type Meaning = (&'static str, fn(&Parameters) -> bool);

const MEANINGS: &[Meaning] = &[
    ("the winner is the best member", |it| it.better_failed == 0),
    (
        "all failed members better than the winner are listed",
        |it| it.better_failed > 0 && it.better_listed == it.better_failed,
    ),
    ("no worse member is up", |it| {
        it.better_failed + 1 + it.worse_failed == it.n
    }),
    ("a failed member worse than the winner", |it| {
        it.worse_failed > 0
    }),
    ("a failed member that is worse", |it| {
        it.worse_listed < it.worse_failed
    }),
    ("finds a worse member down that is not listed", |it| {
        it.worse_listed < it.worse_failed
    }),
    ("the winner waits for T_o", |it| {
        it.better_listed < it.better_failed
    }),
    ("one failed member that is not listed", |it| {
        it.better_listed < it.better_failed && it.better_listed > 0
    }),
    ("waits for T_o once", |it| {
        it.better_failed - it.better_listed > 1
    }),
    ("all of them but one", |it| {
        it.better_failed - it.better_listed > 1
    }),
    ("T_p on a listed member", |it| {
        it.t_p > 0.0 && it.better_listed + it.worse_listed > 0
    }),
    ("T_p for each listed member", |it| {
        it.t_p > 0.0 && it.better_listed + it.worse_listed > 0
    }),
    ("T_p to handle each answer", |it| it.t_p > 0.0),
];

fn check_point(row: &ClaimRow, point: &Point, parameters: Parameters) {
    let subjects = [
        (
            "described",
            &row.described,
            point.described,
            point.described_holds,
        ),
        ("figure", &row.figure, point.figure, point.figure_holds),
    ];
    let lines: Vec<String> = point.verdict.lines().collect();
    let mut said = lines.iter();
    for (name, subject, measured, correct) in subjects {
        assert_eq!(subject.is_some(), measured.is_some(), "{point:#?}");
        let (Some(subject), Some(measured), Some(correct)) = (subject, measured, correct) else {
            continue;
        };
        let line = said.next().expect("a sentence for each algorithm");
        let text = line.strip_prefix(name).expect("the algorithm");
        let text = text.strip_prefix(": ").expect("a sentence");
        check(point, text, measured, correct);
        let used = row.used(parameters);
        let used = if subject.has_list {
            used
        } else {
            used.without_lists()
        };
        for (words, holds) in MEANINGS {
            assert!(!text.contains(words) || holds(&used), "{text:?}: {used:?}");
        }
    }
    assert_eq!(said.next(), None, "{point:#?}");
    assert_eq!(point.verdict.to_string(), lines.join("; "));
}

/// Members on both sides of the winner that failed, some of them listed, with long and short times.
fn grid() -> Vec<Parameters> {
    let mut all = Vec::new();
    for (n, failed, worse) in [
        (2, 0, 0),
        (2, 1, 0),
        (2, 0, 1),
        (3, 1, 0),
        (3, 1, 1),
        (4, 0, 2),
        (7, 3, 2),
        (10, 0, 0),
        (10, 1, 0),
        (10, 3, 0),
        (10, 3, 1),
        (10, 3, 6),
        (10, 8, 0),
        (10, 9, 0),
        (20, 5, 3),
    ] {
        let lists = [(0, 0), (1, 0), (0, 1), (failed, 0), (failed, worse)];
        for (better_listed, worse_listed) in lists {
            for (t_o, t_p) in [
                (10.0, 0.1),
                (50.0, 0.0),
                (200.0, 1.0),
                (4.0, 0.35),
                (3.0, 0.25),
                (2.0, 5.0),
                (33.3, 1.0 / 3.0),
                // Here two parts of (3.3) cancel each other.
                (100.0, 0.4),
            ] {
                let it = Parameters::new(n, failed).with_worse(worse, worse_listed);
                all.push(it.with_listed(better_listed).with_times(t_o, t_p));
            }
        }
    }
    all.retain(|it| it.check().is_ok());
    all
}

#[test]
fn every_verdict_agrees_with_its_values_and_parameters() {
    let mut seen = HashSet::new();
    let (mut as_printed, mut short, mut never) = (0, 0, 0);
    for claim in Claim::ALL {
        for row in claim.rows {
            for parameters in grid() {
                let used = row.used(parameters);
                if !seen.insert(format!("{} {} {used:?}", claim.name, row.name)) {
                    continue;
                }
                let point = claim.measure(row, parameters);
                check_point(row, &point, parameters);
                let text = point.verdict.to_string();
                as_printed += usize::from(text.contains("as printed"));
                short += usize::from(text.contains("is short here"));
                never += usize::from(text.contains("never ends"));
            }
        }
    }
    assert!(seen.len() > 2_000, "{}", seen.len());
    for count in [as_printed, short, never] {
        assert!(count > 100, "{as_printed} {short} {never}");
    }
}

/// A verdict that blames a short T_o is right: with a long one, all algorithms take what their
/// formulas say.
#[test]
fn with_a_long_timeout_no_verdict_blames_it() {
    for claim in Claim::ALL {
        for row in claim.rows {
            for parameters in grid().into_iter().filter(|it| it.t_o == 50.0) {
                for t_p in [0.0, 0.4, 7.0] {
                    let parameters = parameters.with_times(1_000.0, t_p);
                    let point = claim.measure(row, parameters);
                    let text = point.verdict.to_string();
                    assert!(!text.contains("is short here"), "{text}: {point:#?}");
                    check_point(row, &point, parameters);
                }
            }
        }
    }
}
