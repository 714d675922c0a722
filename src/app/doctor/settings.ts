/** @module Settings of `tassis doctor`: whom it asks on the network. */
import type { SettingValues } from '#platform/config.ts'
import { HOST_NAME, list, parseHostPort } from '#platform/setting-kinds.ts'

/** Item that stands alone for an empty list, because an empty variable counts as not set. */
const NONE = 'none'

export const doctorSettings = {
  doctorSmtpDomains: list(
    'Domains of large receivers. Every hour `tassis doctor` connects to their mail hosts, to find out whether outgoing connections are blocked, and sends nothing.',
    `a comma-separated list of domains, or ${NONE}`,
    (v) => HOST_NAME.test(v),
    ['gmail.com', 'outlook.com', 'yahoo.com'],
  ),
  doctorBlockLists: list(
    'DNS block lists (RFC 5782) in which `tassis doctor` looks up the outgoing addresses every hour.',
    `a comma-separated list of zones such as zen.spamhaus.org, or ${NONE}`,
    (v) => HOST_NAME.test(v),
    ['zen.spamhaus.org', 'bl.spamcop.net', 'psbl.surriel.com'],
  ),
  doctorTimeServers: list(
    'Time servers (NTP) with which `tassis doctor` compares the clock every hour.',
    `a comma-separated list of hosts such as time.example.com or 192.0.2.1:123, or ${NONE}`,
    (v) => parseHostPort(v, 123) !== undefined,
    ['time.cloudflare.com', 'time.google.com'],
  ),
}

/** The items of a list of these settings. */
export const listTargets = (items: readonly string[]): readonly string[] => items.filter((item) => item !== NONE)

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof doctorSettings> {}
}
