//! Our specs as the bodies that the engine takes. Pure: what a lab asks of the engine is decided here and nowhere else.
//!
//! Every container: all capabilities dropped but those named, no new privileges, read-only root, memory without swap,
//! capped logs, no restart. Networks are never `internal`: the rules of such a network drop what a relay forwards.

use super::Lookout;
use crate::plan::{ContainerSpec, NetworkSpec, VolumeSpec};
use bollard::models::{
    ContainerCreateBody, DeviceMapping, EndpointIpamConfig, EndpointSettings, HostConfig, HostConfigLogConfig, Ipam,
    IpamConfig, Mount, MountBindOptions, MountType, NetworkCreateRequest, NetworkingConfig, PortBinding, RestartPolicy,
    RestartPolicyNameEnum, VolumeCreateRequest,
};
use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

const BRIDGE_NAME: &str = "com.docker.network.bridge.name";
const MASQUERADE: &str = "com.docker.network.bridge.enable_ip_masquerade";
const INHIBIT_IPV4: &str = "com.docker.network.bridge.inhibit_ipv4";
const GATEWAY_MODE: &str = "com.docker.network.bridge.gateway_mode_ipv4";
/// First API (engine 28.0) that drops packets to a container's address which arrive on another bridge than its own, and
/// that has a mode without this rule. With bridge netfilter on it would drop, on the WAN bridge, all that a relay sends.
pub const GUARDED_ADDRESSES: (usize, usize) = (1, 48);
/// Auxiliary address that the bridge driver gives to containers as default route.
const DEFAULT_GATEWAY: &str = "DefaultGatewayIPv4";
/// Most bytes of a log file, and files kept: relays and probes speak through stdout for as long as a lab lives.
const LOG_LIMITS: [(&str, &str); 2] = [("max-size", "1m"), ("max-file", "2")];

/// A network, for an engine that speaks this API.
pub fn network(spec: &NetworkSpec, api: (usize, usize)) -> NetworkCreateRequest {
    let mut options = map(&[(BRIDGE_NAME, &spec.bridge), (MASQUERADE, "false")]);
    let (gateway, auxiliary) = match spec.host_address {
        None => {
            options.insert(INHIBIT_IPV4.to_owned(), "true".to_owned());
            // Only here, where the host has no address and so no way in: a network that publishes ports stays guarded,
            // at the price that on such an engine with bridge netfilter on it hears nothing from other datacenters.
            if api >= GUARDED_ADDRESSES {
                options.insert(GATEWAY_MODE.to_owned(), "nat-unprotected".to_owned());
            }
            (spec.gateway, None)
        }
        Some(host) => (host, Some(map(&[(DEFAULT_GATEWAY, &spec.gateway.to_string())]))),
    };
    NetworkCreateRequest {
        name: spec.name.clone(),
        driver: Some("bridge".to_owned()),
        internal: Some(false),
        enable_ipv6: Some(false),
        ipam: Some(Ipam {
            config: Some(vec![IpamConfig {
                subnet: Some(spec.subnet.to_string()),
                gateway: Some(gateway.to_string()),
                auxiliary_addresses: auxiliary,
                ..IpamConfig::default()
            }]),
            ..Ipam::default()
        }),
        options: Some(options),
        labels: Some(hashed(&spec.labels)),
        ..NetworkCreateRequest::default()
    }
}

/// A volume.
pub fn volume(spec: &VolumeSpec) -> VolumeCreateRequest {
    VolumeCreateRequest {
        name: Some(spec.name.clone()),
        labels: Some(hashed(&spec.labels)),
        ..VolumeCreateRequest::default()
    }
}

/// A container with its first endpoint only: more are refused at creation before API 1.44. `network` is the id of that
/// endpoint's network (`None`: no network at all).
pub fn container(spec: &ContainerSpec, network: Option<(&str, Ipv4Addr)>) -> ContainerCreateBody {
    ContainerCreateBody {
        user: spec.user.clone(),
        exposed_ports: Some(spec.publish.keys().map(|port| tcp(*port)).collect()),
        open_stdin: Some(spec.open_stdin),
        // EOF must not come when a command detaches: what it started lives on for the next one.
        stdin_once: Some(false),
        env: Some(spec.env.clone()),
        // An empty one would not be the image's own but none.
        entrypoint: (!spec.entrypoint.is_empty()).then(|| spec.entrypoint.clone()),
        cmd: (!spec.command.is_empty()).then(|| spec.command.clone()),
        image: Some(spec.image.clone()),
        labels: Some(hashed(&spec.labels)),
        host_config: Some(host(spec, network.map_or("none", |(id, _)| id))),
        networking_config: network.map(|(id, address)| NetworkingConfig {
            endpoints_config: Some(HashMap::from([(id.to_owned(), endpoint(address))])),
        }),
        ..ContainerCreateBody::default()
    }
}

/// A container that shares the network of another one.
pub fn lookout(lookout: &Lookout, container: &str) -> ContainerCreateBody {
    const MEMORY_BYTES: i64 = 32 << 20;
    ContainerCreateBody {
        user: lookout.user.clone(),
        open_stdin: Some(true),
        stdin_once: Some(false),
        entrypoint: Some(lookout.entrypoint.clone()),
        image: Some(lookout.image.clone()),
        labels: Some(hashed(&lookout.labels)),
        host_config: Some(HostConfig {
            network_mode: Some(format!("container:{container}")),
            memory: Some(MEMORY_BYTES),
            memory_swap: Some(MEMORY_BYTES),
            pids_limit: Some(32),
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            readonly_rootfs: Some(true),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

/// An endpoint with a static address.
pub fn endpoint(address: Ipv4Addr) -> EndpointSettings {
    EndpointSettings {
        ipam_config: Some(EndpointIpamConfig {
            ipv4_address: Some(address.to_string()),
            ..EndpointIpamConfig::default()
        }),
        ..EndpointSettings::default()
    }
}

/// `label=KEY=VALUE` filters of a list call.
pub fn label_filters(labels: &BTreeMap<String, String>) -> HashMap<String, Vec<String>> {
    let wanted = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    HashMap::from([("label".to_owned(), wanted)])
}

fn host(spec: &ContainerSpec, network: &str) -> HostConfig {
    let memory = i64::try_from(spec.memory_bytes).unwrap_or(i64::MAX);
    HostConfig {
        network_mode: Some(network.to_owned()),
        memory: Some(memory),
        // Equal to memory: no swap. A server that swaps measures the disk.
        memory_swap: Some(memory),
        pids_limit: Some(i64::from(spec.pids)),
        binds: Some(
            spec.volumes
                .iter()
                .map(|(name, path)| format!("{name}:{path}"))
                .collect(),
        ),
        // Not as binds: of those the engine makes what is absent, as a folder of root's on the host.
        mounts: Some(spec.mounts.iter().map(|(path, source)| mount(path, source)).collect()),
        tmpfs: Some(hashed(&spec.tmpfs)),
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(map(&LOG_LIMITS)),
        }),
        port_bindings: Some(
            spec.publish
                .iter()
                .map(|(port, (address, host_port))| {
                    let binding = PortBinding {
                        host_ip: Some(address.to_string()),
                        host_port: Some(host_port.to_string()),
                    };
                    (tcp(*port), Some(vec![binding]))
                })
                .collect(),
        ),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            ..RestartPolicy::default()
        }),
        cap_add: Some(spec.cap_add.clone()),
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        readonly_rootfs: Some(true),
        privileged: Some(false),
        devices: Some(
            spec.devices
                .iter()
                .map(|path| DeviceMapping {
                    path_on_host: Some(path.clone()),
                    path_in_container: Some(path.clone()),
                    cgroup_permissions: Some("rwm".to_owned()),
                })
                .collect(),
        ),
        sysctls: Some(hashed(&spec.sysctls)),
        extra_hosts: Some(spec.extra_hosts.clone()),
        // Names come from /etc/hosts; an unknown one costs one second instead of ten, and is not looked up twice.
        dns_search: Some(vec![".".to_owned()]),
        dns_options: Some(vec!["timeout:1".to_owned(), "attempts:1".to_owned()]),
        ..HostConfig::default()
    }
}

/// A path of the host, read-only; what is mounted below it on the host does not come along, since that would be writable.
fn mount(path: &str, source: &str) -> Mount {
    Mount {
        target: Some(path.to_owned()),
        source: Some(source.to_owned()),
        typ: Some(MountType::BIND),
        read_only: Some(true),
        bind_options: Some(MountBindOptions {
            non_recursive: Some(true),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    }
}

fn tcp(port: u16) -> String {
    format!("{port}/tcp")
}

fn hashed(map: &BTreeMap<String, String>) -> HashMap<String, String> {
    map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// A tar with one file in it, that a user (`uid:gid`) may read and write.
pub(super) fn archive(name: &str, text: &str, user: Option<&str>) -> bytes::Bytes {
    let mut ids = user.unwrap_or("0:0").split(':').map(|id| id.parse().unwrap_or(0));
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o600);
    header.set_uid(ids.next().unwrap_or(0));
    header.set_gid(ids.next().unwrap_or(0));
    header.set_size(text.len() as u64);
    let mut archive = tar::Builder::new(Vec::new());
    let added = archive.append_data(&mut header, name, text.as_bytes());
    added.expect("memory can be written");
    archive.into_inner().expect("memory can be written").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Kind;

    fn network_spec(host_address: Option<Ipv4Addr>) -> NetworkSpec {
        NetworkSpec {
            name: "tb-x.dc1".to_owned(),
            kind: Kind::Datacenter,
            bridge: "tb01234567".to_owned(),
            subnet: "198.18.0.0/24".parse().unwrap(),
            gateway: Ipv4Addr::new(198, 18, 0, 254),
            host_address,
            labels: BTreeMap::from([("testbed.lab".to_owned(), "x".to_owned())]),
        }
    }

    fn container_spec() -> ContainerSpec {
        ContainerSpec {
            name: "tb-x-a".to_owned(),
            kind: Kind::Node,
            image: "image:1".to_owned(),
            entrypoint: vec!["server".to_owned()],
            command: vec!["--port".to_owned(), "6379".to_owned()],
            env: vec!["A=b".to_owned()],
            user: Some("999:999".to_owned()),
            endpoints: vec![],
            extra_hosts: vec!["b:198.18.0.3".to_owned()],
            cap_add: vec!["NET_ADMIN".to_owned()],
            devices: vec!["/dev/net/tun".to_owned()],
            sysctls: BTreeMap::from([("net.ipv4.ip_forward".to_owned(), "1".to_owned())]),
            volumes: BTreeMap::from([("state".to_owned(), "/data".to_owned())]),
            mounts: BTreeMap::new(),
            tmpfs: BTreeMap::from([("/run".to_owned(), "mode=0755".to_owned())]),
            files: BTreeMap::new(),
            memory_bytes: 64 << 20,
            pids: 64,
            publish: BTreeMap::from([(6379, (Ipv4Addr::LOCALHOST, 16379))]),
            open_stdin: true,
            labels: BTreeMap::new(),
        }
    }

    #[test]
    fn without_a_host_address_the_gateway_is_the_relays_and_the_bridge_has_none() {
        let body = network(&network_spec(None), (1, 41));
        let options = body.options.unwrap();
        assert_eq!(options[INHIBIT_IPV4], "true");
        assert_eq!(options[MASQUERADE], "false");
        assert_eq!(options[BRIDGE_NAME], "tb01234567");
        let config = body.ipam.unwrap().config.unwrap().remove(0);
        assert_eq!(config.gateway.unwrap(), "198.18.0.254");
        assert_eq!(config.auxiliary_addresses, None);
        assert_eq!(
            body.internal,
            Some(false),
            "rules of internal networks drop routed frames"
        );
    }

    #[test]
    fn with_a_host_address_the_relays_gateway_becomes_the_auxiliary_default_route() {
        let body = network(&network_spec(Some(Ipv4Addr::new(198, 18, 0, 1))), (1, 53));
        let options = body.options.unwrap();
        assert!(!options.contains_key(INHIBIT_IPV4) && !options.contains_key(GATEWAY_MODE));
        let config = body.ipam.unwrap().config.unwrap().remove(0);
        assert_eq!(config.gateway.unwrap(), "198.18.0.1");
        assert_eq!(config.auxiliary_addresses.unwrap()[DEFAULT_GATEWAY], "198.18.0.254");
    }

    #[test]
    fn engines_that_guard_addresses_are_told_not_to_where_the_host_has_no_way_in() {
        let mode = |api| network(&network_spec(None), api).options.unwrap().remove(GATEWAY_MODE);
        assert_eq!(mode((1, 47)), None, "an engine that does not know the mode refuses it");
        assert_eq!(mode((1, 48)).as_deref(), Some("nat-unprotected"));
    }

    #[test]
    fn every_container_is_confined_and_its_logs_are_capped() {
        let body = container(&container_spec(), Some(("net", Ipv4Addr::new(198, 18, 0, 2))));
        let host = body.host_config.unwrap();
        assert_eq!(host.cap_drop.unwrap(), ["ALL"]);
        assert_eq!(host.cap_add.unwrap(), ["NET_ADMIN"]);
        assert_eq!(host.security_opt.unwrap(), ["no-new-privileges"]);
        assert_eq!(host.readonly_rootfs, Some(true));
        assert_eq!(host.memory, Some(64 << 20));
        assert_eq!(host.memory_swap, host.memory);
        assert_eq!(host.pids_limit, Some(64));
        let log = host.log_config.unwrap();
        assert_eq!(
            (log.typ.as_deref(), &log.config.unwrap()["max-size"][..]),
            (Some("json-file"), "1m")
        );
        assert_eq!(host.network_mode.unwrap(), "net");
        assert_eq!(host.binds.unwrap(), ["state:/data"]);
    }

    #[test]
    fn stdin_stays_open_when_a_command_detaches() {
        let body = container(&container_spec(), None);
        assert_eq!((body.open_stdin, body.stdin_once), (Some(true), Some(false)));
    }

    #[test]
    fn a_published_port_is_exposed_and_bound_to_its_host_address_only() {
        let body = container(&container_spec(), None);
        assert_eq!(body.exposed_ports.unwrap(), ["6379/tcp"]);
        let bound = body.host_config.unwrap().port_bindings.unwrap()["6379/tcp"]
            .clone()
            .unwrap();
        assert_eq!(bound[0].host_ip.as_deref(), Some("127.0.0.1"));
        assert_eq!(bound[0].host_port.as_deref(), Some("16379"));
    }

    #[test]
    fn filters_ask_for_every_label() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]);
        assert_eq!(label_filters(&labels)["label"], ["a=1", "b=2"]);
    }
}
