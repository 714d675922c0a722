/**
 * @module `tassis import postal`: takes over the servers of a Postal as accounts, with what lets its programs and DNS
 * stay as they are (credentials, DKIM keys, return paths), and suppressions, webhooks and routes. Credentials come last,
 * so that none can send before the suppressions are here. Changes nothing that exists.
 */
import type { Domain } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import type { OperatorAccountSummary } from '#client/operator-api.ts'
import { toALabels } from '#protocols/address/domain.ts'
import { parseMailbox } from '#protocols/address/parse.ts'
import { importDkimKey, readModulusBits } from '#protocols/dkim/keys.ts'
import type { CommandApi } from '../api.ts'
import type { Command, Context } from '../command.ts'
import { readInput } from '../options.ts'
import data from './postal.json' with { type: 'json' }
import { PostalDatabase, type PostalServer } from './postal-database.ts'
import { ImportTable, type SuppressionLines } from './result.ts'

interface Options {
  readonly apply?: true
  readonly messageDbPrefix: string
  readonly dkimIdentifier: string
  readonly returnPathPrefix: string
}

/** What the whole import shares. */
interface Run {
  readonly operator: CommandApi['operator']
  readonly postal: PostalDatabase
  readonly table: ImportTable
  readonly options: Options
  readonly accounts: readonly OperatorAccountSummary[]
  /** Of rows with one name the first is taken over: a domain is of one account. */
  readonly domains: readonly DomainRow[]
  /** The accounts of credentials that were seen, by the keys. */
  readonly keys: Map<string, string>
}

/** A server, whose name is that of its account. */
interface Target extends Run {
  readonly server: PostalServer
  readonly account: string
  /** These two are undefined in a dry run, before there is the account. */
  readonly id: string | undefined
  readonly api: CommandApi | undefined
}

/** A domain for each server that may use it. */
interface DomainRow {
  readonly id: number
  readonly server: number
  readonly name: string
  readonly pem: string | null
  readonly identifier: string | null
}

/** Ours, by the events of Postal. */
const EVENTS: Readonly<Record<string, readonly string[]>> = data.events
/** What is said of things that are not taken over as they are; some by what they are in Postal. */
const ADVICE: Readonly<Record<string, string>> = data.advice

export function addPostalImport(add: ReturnType<Command['group']>): void {
  add(
    'postal <url>',
    'take over servers, domains with their DKIM keys, credentials, webhooks, routes and suppressions of Postal 2.x or 3.x; exit code 1 if something was refused',
    { url: 'its main database, such as mysql://user:password@127.0.0.1/postal; - reads that from standard input' },
  )
    .option('--apply', 'write; default: only show what would be written')
    .option('--message-db-prefix <prefix>', "what the names of its servers' databases begin with", 'postal')
    .option('--dkim-identifier <name>', 'what its DKIM selectors begin with (dns.dkim_identifier)', 'postal')
    .option('--return-path-prefix <label>', 'label of its return paths (dns.custom_return_path_prefix)', 'psrp')
    .run(async ({ api, options }: Context<Options>, url: string) => {
      const address = url === '-' ? readInput(url, 'address').toString().trim() : url
      await using postal = new PostalDatabase(address, options.messageDbPrefix)
      const servers = await postal.open()
      const table = new ImportTable(options.apply === true)
      const accounts = await Array.fromAsync(api.operator.listAccounts({ per_page: 100 }))
      const domains = await listDomains(postal)
      const run = { operator: api.operator, postal, table, options, accounts, domains, keys: new Map() }
      for (const server of servers) await importServer(api, server, run)
      for (const { source, from, advice } of data.unsupported) {
        const [row] = from ? await postal.query<{ n: number }>(`SELECT count(*) AS n FROM ${from}`) : []
        if (!from || Number(row?.n) > 0) await table.put({ source, name: String(row?.n ?? ''), instead: advice })
      }
      table.print(options, 'Next: docs/from-postal.md.')
    })
}

/** Verified ones first, of those a server's, then the oldest; of servers that share one the oldest. */
async function listDomains(postal: PostalDatabase): Promise<DomainRow[]> {
  const rows = await postal.query<DomainRow>(
    `SELECT d.id, s.id AS server, coalesce(d.name, '') AS name, d.dkim_private_key AS pem, d.dkim_identifier_string AS identifier
     FROM domains d
     JOIN organizations o ON o.deleted_at IS NULL AND o.suspended_at IS NULL
     JOIN servers s ON s.organization_id = o.id AND s.deleted_at IS NULL AND s.suspended_at IS NULL AND
       (d.owner_type = 'Server' AND s.id = d.owner_id OR d.owner_type = 'Organization' AND o.id = d.owner_id)
     ORDER BY d.verified_at IS NULL, d.owner_type = 'Organization', d.id, s.id`,
  )
  return rows.map((row) => ({ ...row, name: toALabels(row.name) ?? row.name }))
}

async function importServer({ operator, as }: CommandApi, server: PostalServer, run: Run): Promise<void> {
  const { name: account } = server
  const owner = parseMailbox(server.owner ?? '')
  const email = owner.kind === 'ok' ? owner.address : ''
  // Also by its owner, because the users of any account may give that this name.
  const found = run.accounts.find((one) => !one.parent_account_id && one.name === account && one.email === email)
  const thing = { source: 'server', name: account, account, exists: !!found }
  const made = await run.table.put(thing, () => operator.createAccount({ name: account, email, plan: 'unlimited' }))
  const { id } = found ?? made?.data ?? {}
  if (run.table.isApplied && !id) return
  const target = { ...run, server, account, id, api: id === undefined ? undefined : as(id) }
  await run.table.putSuppressions(target.api, { source: 'suppressions', account }, readSuppressions(target))
  const domains = await importDomains(target)
  await importWebhooks(target)
  await importRoutes(target, domains)
  await importCredentials(target)
}

const SUPPRESSIONS_PER_QUERY = 5000

/** Those that Postal still obeys. */
async function* readSuppressions({ postal, server: { database } }: Target): AsyncGenerator<SuppressionLines> {
  for (let after: number | undefined = 0; after !== undefined; ) {
    const rows: readonly ({ id: number } & Record<'address' | 'reason' | 'at', string>)[] = await postal.query(
      `SELECT id, coalesce(address, '') AS address, if(reason LIKE '%fail%' OR reason LIKE '%bounce%', 'hard_bounce', 'manual') AS reason,
         concat(timestamp) AS at
       FROM \`${database}\`.suppressions WHERE id > ? AND type = 'recipient' AND (keep_until IS NULL OR keep_until >= unix_timestamp())
       ORDER BY id LIMIT ${SUPPRESSIONS_PER_QUERY}`,
      after,
    )
    yield rows.map(({ address, reason, at }) => [address, reason, '', at ?? ''])
    after = rows.at(-1)?.id
  }
}

/** Returns the domains of the account by their ids in Postal. */
async function importDomains(target: Target): Promise<Map<number, Domain | undefined>> {
  const { table, options, server, account, api, domains } = target
  const here = api ? await Array.fromAsync(api.domains.list({ per_page: 100 })) : []
  const imported = new Map<number, Domain | undefined>()
  for (const row of domains) {
    if (row.server !== server.id) continue
    const { id, name, pem, identifier } = row
    const isChosen = domains.find((one) => one.name === name) === row
    const key = pem && identifier ? importDkimKey(pem) : undefined
    const found = here.find(({ domain }) => domain === name)
    const selector = `${options.dkimIdentifier}-${identifier}`.toLowerCase()
    const bits = key?.kind === 'ok' ? readModulusBits(key.publicKey) : 0
    const weak = bits < 2048 ? `; its DKIM key has ${bits} bits, which is weak: rotate it later` : ''
    const isOther = found && key?.kind === 'ok' && found.dkim_public_key !== key.publicKey
    const thing = {
      source: 'domain',
      name,
      account,
      exists: !!found,
      instead: !isChosen && ADVICE['taken'],
      refused: !found && key?.kind === 'invalid' && `its DKIM key: ${key.reason}`,
      detail: isOther ? ADVICE['other_key'] : key ? `selector ${selector}${weak}` : ADVICE['no_key'],
    }
    const made = await table.put(thing, async () => {
      const kept = key?.kind === 'ok' ? { dkim_private_key: key.privateKeyPem, dkim_selector: selector } : {}
      return api?.domains.create({ domain: name, return_path: `${options.returnPathPrefix}.${name}`, ...kept })
    })
    if (isChosen && !thing.refused && (found || made || !table.isApplied)) imported.set(id, found ?? made?.data)
  }
  return imported
}

async function importWebhooks({ postal, table, server, account, api }: Target): Promise<void> {
  const here = api ? await Array.fromAsync(api.webhooks.list({ per_page: 100 })) : []
  const rows = await postal.query<{ url: string; isForAll: number; enabled: number; names: string | null }>(
    `SELECT url, all_events AS isForAll, enabled, (SELECT group_concat(event) FROM webhook_events WHERE webhook_id = w.id) AS names
     FROM webhooks w WHERE server_id = ? ORDER BY id`,
    server.id,
  )
  for (const { url, isForAll, enabled, names } of rows) {
    const wanted = isForAll ? Object.keys(EVENTS) : (names ?? '').split(',')
    const events = [...new Set(wanted.flatMap((name) => EVENTS[name] ?? []))]
    const instead = !enabled ? 'disabled in Postal' : events.length === 0 && `nothing here is like ${names}`
    const detail = `gets ${events.join(', ')} in our form (docs/events.md): change its program`
    const exists = here.some((webhook) => webhook.url === url)
    await table.put({ source: 'webhook', name: url, account, exists, instead, detail }, async () =>
      api?.webhooks.create({ url, events }),
    )
  }
}

type RouteRow = Record<'id' | 'domainId', number> &
  Record<'name' | 'domain' | 'mode', string> &
  Record<'url' | 'address' | 'hostname', string | null>

async function importRoutes({ postal, table, server, account, api }: Target, domains: Map<number, Domain | undefined>) {
  const here = api ? await Array.fromAsync(api.inboundRoutes.list({ per_page: 100 })) : []
  const rows = await postal.query<RouteRow>(
    `SELECT r.id, r.domain_id AS domainId, r.name, d.name AS domain, if(d.id IS NULL, 'returnpath', r.mode) AS mode, url, address, hostname
     FROM routes r LEFT JOIN domains d ON d.id = r.domain_id LEFT JOIN (
       SELECT id AS route, endpoint_type AS type, endpoint_id AS endpoint, 0 AS position FROM routes WHERE mode = 'Endpoint'
       UNION ALL SELECT route_id, endpoint_type, endpoint_id, id FROM additional_route_endpoints) e ON e.route = r.id
     LEFT JOIN http_endpoints h ON type = 'HTTPEndpoint' AND h.id = endpoint
     LEFT JOIN address_endpoints a ON type = 'AddressEndpoint' AND a.id = endpoint
     LEFT JOIN smtp_endpoints s ON type = 'SMTPEndpoint' AND s.id = endpoint
     WHERE r.server_id = ? ORDER BY r.id, position`,
    server.id,
  )
  for (const all of Map.groupBy(rows, ({ id }) => id).values()) {
    const [{ domainId, name, mode, domain: domainName }] = all as [RouteRow]
    const [webhook_url = null, ...urls] = all.flatMap(({ url }) => url ?? [])
    const forward_to = all.flatMap(({ address }) => address ?? [])
    const left = [...urls, ...all.flatMap(({ hostname }) => hostname ?? [])].join(', ')
    const domain = domains.get(domainId)
    const [match_type, pattern] = name === '*' ? (['catch_all', ''] as const) : (['exact', name] as const)
    const isBySmtp = mode === 'Endpoint' && !webhook_url && forward_to.length === 0
    const problem = domains.has(domainId) ? isBySmtp && 'smtp' : 'foreign'
    const thing = {
      source: 'route',
      name: `${name}@${domainName ?? ''}`,
      account,
      exists: here.some(
        (one) =>
          one.domain_id === domain?.id &&
          one.match_type === match_type &&
          one.pattern.toLowerCase() === pattern.toLowerCase(),
      ),
      instead: ADVICE[mode] ?? (problem && ADVICE[problem]),
      detail: `${webhook_url ? ADVICE['form'] : ''}${left && `; not taken over: ${left}`}`,
    }
    await table.put(thing, async () => {
      if (!api || !domain) return
      // Before the route, because one that exists is passed over.
      if (!domain.inbound_enabled) await api.domains.update(domain.id, { inbound_enabled: true })
      await api.inboundRoutes.create({ domain_id: domain.id, match_type, pattern, webhook_url, forward_to })
    })
  }
}

async function importCredentials({ operator, postal, table, server, account, id, keys }: Target): Promise<void> {
  const rows = await postal.query<{ type: string; name: string; key: string; hold: number }>(
    "SELECT type, coalesce(name, type) AS name, coalesce(`key`, '') AS `key`, hold FROM credentials WHERE server_id = ? ORDER BY id",
    server.id,
  )
  for (const { type, name, key, hold } of rows) {
    const instead = ADVICE[type]
    const drafts = hold !== 0 || server.mode === 'Development'
    const owner = instead ? undefined : (keys.get(key) ?? (await findKeyOwner(operator, key)))
    if (!instead) keys.set(key, owner ?? id ?? account)
    const refused = owner !== undefined && owner !== (id ?? account) && ADVICE['foreign_key']
    const thing = { source: `${type} credential`, name, account, instead, exists: owner !== undefined, refused }
    const detail = drafts ? 'what it sends waits as a draft, since Postal holds it' : undefined
    const scopes = type === 'SMTP' ? ['emails:send'] : ['emails:send', 'emails:read']
    await table.put(
      { ...thing, detail },
      async () => id && operator.importAccountApiKey(id, { name, scopes, key, drafts }),
    )
  }
}

/** Id of the account that has a key; undefined: none, also of what can be no key. */
async function findKeyOwner(operator: CommandApi['operator'], key: string): Promise<string | undefined> {
  try {
    return (await operator.find({ kind: 'api_key', text: key })).data.account_id
  } catch (error) {
    if (error instanceof TassisError && [404, 422].includes(error.status)) return undefined
    throw error
  }
}
