/** @module A service with one account, a real DNS server into whose zone tests publish, and a manual clock. */
import type { Actor, App } from '#features/core/app/app.ts'
import { createDomain, type Domain, getDomain, listDnsRecords } from '#features/setup/domains/domains.ts'
import { formatUuid } from '#platform/ids.ts'
import { createTestAccount, createTestApp, type TestApp } from '#test/support/app.ts'
import { type DnsServer, type Fault, type NameEntry, startDnsServer } from '#test/support/dns-server.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

export interface DomainTest extends AsyncDisposable {
  readonly service: TestApp
  readonly app: App
  readonly actor: Actor
  readonly clock: ManualClock
  readonly dns: DnsServer
  /** Registers a domain and returns it with its public id. */
  register(name: string, actor?: Actor): Promise<{ id: string; domain: Domain }>
  /** Publishes the domain's `dns_records`, beside existing records. */
  publish(
    domain: Domain,
    keys?: readonly (keyof Domain['verified'] | 'dkim_ed25519' | 'dkim_next' | 'dkim_ed25519_next')[],
  ): void
  /** Removes names from DNS, or makes them fail. */
  break(fault: Fault, ...hosts: string[]): void
  /** The stored domain. */
  stored(id: string, actor?: Actor): Domain
  /** Audit actions on domains, oldest first, with their actors. */
  audited(): string[]
}

export async function startDomainTest(more: Readonly<Record<string, string>> = {}): Promise<DomainTest> {
  const dns = await startDnsServer({})
  const clock = new ManualClock()
  const service = await createTestApp({
    clock,
    settings: { TASSIS_DNS_SERVERS: dns.address, TASSIS_OUTBOUND_IPS: '192.0.2.25', ...more },
  })
  const { app } = service
  const actor = await createTestAccount(app)
  return {
    service,
    app,
    actor,
    clock,
    dns,
    async register(name, by = actor) {
      const { domain } = await createDomain(app, by, name)
      return { id: formatUuid(domain.uuid), domain }
    },
    publish(domain, keys = ['spf', 'dkim', 'dmarc', 'return_path', 'mx']) {
      const records = listDnsRecords(app, domain)
      for (const key of keys) {
        const record = records[key]
        if (!record) throw new Error(`${domain.domain} has no record ${key}`)
        const { type, host, value, priority = 0 } = record
        const there = dns.zone[host]
        const entry: NameEntry = typeof there === 'object' ? there : {}
        dns.zone[host] = entry
        if (type === 'MX') entry.MX = [{ preference: priority, exchange: value }]
        else entry.TXT = [value]
      }
    },
    break(fault, ...hosts) {
      for (const host of hosts) dns.zone[host] = fault
    },
    stored: (id, by = actor) => getDomain(app.db, by.accountId, id),
    audited: () =>
      app.db
        .query<{ action: string; actor_type: string }, []>(
          "SELECT action, actor_type FROM audit_logs WHERE resource_type = 'domain' ORDER BY id",
        )
        .all()
        .map((row) => `${row.action} by ${row.actor_type}`),
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await dns.close()
    },
  }
}
