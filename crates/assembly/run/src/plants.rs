//! The plan's plants, started and put behind the pause wire.

use std::collections::BTreeMap;
use std::sync::Arc;

use timeloom_bus::Bus;
use timeloom_plant::{Exchange, PlantInit, PlantProcess, PlantSpec, Timeouts};
use timeloom_results::RunDirectory;
use timeloom_scenario::Plan;
use timeloom_time::Instant;

use crate::error::RunError;
use crate::record::Scribe;
use crate::rights;

/// Starts every plant and asks what it is.
pub(crate) fn start(
    plan: &Plan,
    directory: &RunDirectory,
    bus: &Bus,
    scribe: &Scribe,
) -> Result<BTreeMap<String, Arc<Exchange>>, RunError> {
    let mut exchanges = BTreeMap::new();
    for (name, plant) in &plan.simulation.plants {
        let spec = PlantSpec {
            name: name.clone(),
            argv: plant.run.iter().map(Into::into).collect(),
            env: plant
                .env
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            cwd: Some(plant.directory.clone()),
            log: directory.plain_log(&format!("plant-{name}"))?.into(),
            rights: rights::of(plant.user.as_ref(), plant.capabilities.as_deref())
                .map_err(|error| RunError::Start(format!("plant {name}: {error}")))?,
            timeouts: Timeouts {
                request: plant.timeout,
                ..Timeouts::default()
            },
        };
        let init = PlantInit {
            seed: plan.seed,
            t: Instant::ZERO,
            config: serde_json::Value::Object(plant.config.clone()),
            record: plant.record.signals.clone(),
            record_every: plant.record.every,
            step: plant.step,
        };
        let process = PlantProcess::start(&spec, &init)
            .map_err(|error| RunError::Start(error.to_string()))?;
        let (scribe, source): (Scribe, Arc<str>) = (scribe.clone(), name.as_str().into());
        let end = Instant::ZERO + plan.time.duration;
        let exchange = Exchange::new(bus.clone(), process, move |sample| {
            // On a busy machine the end is noticed late; what a program asks
            // for until then is not the run's.
            if sample.t <= end {
                scribe.sample(&source, &sample);
            }
        });
        exchanges.insert(name.clone(), Arc::new(exchange));
    }
    Ok(exchanges)
}
