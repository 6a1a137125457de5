//! Figures as they are gathered.

use serde_json::{Map, Value, json};

/// One measured figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// A stable name.
    pub name: String,
    /// What it is, for people.
    pub what: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// What is aimed for, if anything is.
    pub target: Option<&'static str>,
}

/// All figures of a run.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    all: Vec<Figure>,
}

impl Figures {
    /// Adds a figure, and shows it at once: a run is long.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        what: impl Into<String>,
        value: f64,
        unit: &'static str,
        target: Option<&'static str>,
    ) {
        let figure = Figure { name: name.into(), what: what.into(), value, unit, target };
        eprintln!("{}", super::report::line(&figure));
        self.all.push(figure);
    }

    /// A figure by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.all.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut map = Map::new();
        for figure in &self.all {
            map.insert(figure.name.clone(), json!({ "value": figure.value, "unit": figure.unit }));
        }
        Value::Object(map)
    }

    /// For people: a table in Markdown.
    #[must_use]
    pub fn table(&self) -> String {
        super::report::table(&self.all)
    }
}
