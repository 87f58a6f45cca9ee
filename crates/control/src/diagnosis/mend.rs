//! Mending what a check found, by the check's own statement.

use doctor::{Finding, Fix};
use engine::examination;

use super::{Doctor, Wanted};
use crate::context::records::no_server;
use crate::leadership::lead::Lead;
use catalog::command::{Arguments, CommandError, Table};
use catalog::event::Event;

impl Doctor {
    /// Looks again, runs the statement that mends the finding, and says whether the check is content then.
    pub(crate) async fn manage_mend(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let (check, name) = (args.text("check"), args.text("server_id"));
        let sure = args.switch("sure")?;
        let record = {
            let state = self.context.state();
            let found = state.records.find(name);
            found.map(|(_, kept)| kept.value.clone())
        };
        let record = record.ok_or_else(|| no_server(name, None))?;
        let address = record.address();
        let wanted = Wanted {
            names: vec![address.clone()],
            newcomer: None,
        };
        let found = |all: Vec<Finding>| all.into_iter().find(|it| it.check == check);
        let Some(finding) = found(self.findings(&wanted).await) else {
            return Err(CommandError::Refused(format!(
                "nothing to mend: {check} finds nothing at {address}; `heddle doctor {address}` lists what \
                 there is"
            )));
        };
        match finding.fix {
            Fix::Refused(why) => {
                return Err(CommandError::Refused(format!(
                    "{check} at {address} is not mended from here, because {why}; mend it so: {}",
                    finding.cure
                )));
            }
            Fix::Asks(why) if !sure => {
                return Err(CommandError::Refused(format!(
                    "{check} at {address} is mended by {}, but {why}; repeat the command with --sure",
                    finding.statement
                )));
            }
            Fix::Asks(_) | Fix::Safe => {}
        }
        let mut link = self.links.reach(lead, &record).await?;
        let timeout_ms = self.context.settings().step_timeout_ms;
        examination::mend(&mut link, &finding.statement, timeout_ms).await?;
        let left = found(self.findings(&wanted).await);
        let mut table = Table::new(&["check", "server", "statement", "mended", "evidence"]);
        let detail = format!("{check} at {address}: {}", finding.statement);
        let event = Event::now("doctor_mended", &record.group, detail);
        self.context
            .happened(event.of(&record.uuid, address.clone()));
        table.rows.push(vec![
            check.into(),
            address.into(),
            finding.statement.into(),
            left.is_none().into(),
            left.map_or_else(String::new, |it| it.evidence).into(),
        ]);
        Ok(table)
    }
}
