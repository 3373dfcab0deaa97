//! What a Redis or Valkey server says of itself in INFO, and reading it for the few fields that blocks act on.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;

/// Reply of INFO as fields. Names are the server's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Info(BTreeMap<String, String>);

impl Info {
    /// Fields of an INFO text; lines that are no field are skipped.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self(
            text.lines()
                .filter_map(|line| line.trim_end().split_once(':'))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// A field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A field that is a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<i64> {
        self.field(name)?.parse().ok()
    }

    /// Whom it replicates from (`None`: it is a primary).
    #[must_use]
    pub fn upstream(&self) -> Option<SocketAddrV4> {
        if self.field("role") != Some("slave") {
            return None;
        }
        let port = self.field("master_port")?.parse().ok()?;
        Some(SocketAddrV4::new(self.field("master_host")?.parse().ok()?, port))
    }

    /// Replicas that are attached and past their first synchronisation.
    #[must_use]
    pub fn online_replicas(&self) -> usize {
        self.0
            .iter()
            .filter(|(name, value)| is_replica_line(name) && value.split(',').any(|part| part == "state=online"))
            .count()
    }

    /// How far it has got in the stream of its primary, if its link to it is up: the offset that was applied.
    #[must_use]
    pub fn applied_offset(&self) -> Option<i64> {
        if self.field("master_link_status") != Some("up") {
            return None;
        }
        self.number("slave_repl_offset")
    }
}

/// `slave0`, `slave1`, ...: one line for each attached replica.
fn is_replica_line(name: &str) -> bool {
    name.strip_prefix("slave")
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIMARY: &str = "# Replication\r\nrole:master\r\nconnected_slaves:2\r\n\
        slave0:ip=198.18.0.3,port=6379,state=online,offset=57,lag=0\r\n\
        slave1:ip=198.18.1.3,port=6379,state=wait_bgsave,offset=0,lag=0\r\nmaster_repl_offset:71\r\n";

    #[test]
    fn only_replicas_that_are_online_count() {
        let info = Info::parse(PRIMARY);
        assert_eq!(info.online_replicas(), 1);
        assert_eq!(info.number("master_repl_offset"), Some(71));
        assert_eq!(info.upstream(), None);
    }

    #[test]
    fn a_replica_names_its_upstream_and_its_applied_offset() {
        let info = Info::parse(
            "role:slave\r\nmaster_host:198.18.0.2\r\nmaster_port:6379\r\nmaster_link_status:up\r\nslave_repl_offset:57\r\n",
        );
        assert_eq!(info.upstream(), Some("198.18.0.2:6379".parse().unwrap()));
        assert_eq!(info.applied_offset(), Some(57));
    }

    #[test]
    fn an_offset_over_a_link_that_is_down_is_none() {
        let info = Info::parse("role:slave\r\nmaster_link_status:down\r\nslave_repl_offset:57\r\n");
        assert_eq!(info.applied_offset(), None);
    }
}
