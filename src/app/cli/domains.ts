/** @module `tassis domains`: registers domains, shows the DNS records to publish and checks DNS. */
import { Option } from 'commander'
import type { Domain, VerifyDomainResult } from '#client/api.ts'
import { isUnanswered } from '#features/setup/domains/check-result.ts'
import { findHostnameWarnings } from '#features/setup/domains/dns-records.ts'
import { SENDING_RECORDS } from '#features/setup/domains/verification-state.ts'
import { formatZoneLine } from '#features/setup/domains/zone-file.ts'
import { type CommandApi, findOne } from './api.ts'
import type { Command, Context } from './command.ts'
import { UsageError } from './errors.ts'
import { confirmAction } from './options.ts'
import {
  type Columns,
  fields,
  formatPage,
  formatTable,
  formatUtc,
  formatUtcFromNow,
  joinParagraphs,
  printResult,
} from './output.ts'

const DOMAIN_COLUMNS: Columns<Domain> = {
  ...fields<Domain>()('domain status checked_at id'),
  '': describeState,
}

const WITHOUT_DNS_DESCRIPTION =
  'mark a domain verified without a DNS check, for testing; expires 72 hours after a check that finds no records'

export function addDomainCommands(program: Command): void {
  const domains = program.command('domains').description('register, verify and remove sending domains')
  const addDomainCommand = (name: string, description: string): Command =>
    domains.add(name, description).account().argument('<domain>', 'name or ID')

  domains
    .add('add', 'register a domain and print the DNS records to publish')
    .account()
    .argument('<domain>', 'such as example.com')
    .run(async ({ api, options }, name) => {
      const created = await api.domains.create({ domain: name })
      const warnings = [...(created.warnings ?? []), ...(await readHostnameWarnings(api))]
      printResult(options, created, ({ data }) =>
        joinParagraphs(
          `Registered ${data.domain} (${data.id}). ${describeState(data)}`,
          ...warnings.map((warning) => `Note: ${warning}`),
          formatRecords(data),
          `Then: tassis domains verify ${data.domain}`,
        ),
      )
    })

  domains
    .add('list', 'list the domains of an account')
    .account()
    .list(
      ({ api }) => api.domains.list({ per_page: 100 }),
      'The account has no domain; add one with `tassis domains add example.com`.',
      DOMAIN_COLUMNS,
    )

  addDomainCommand('records', 'print the DNS records to publish')
    .addOption(new Option('--zone', 'print zone file lines').conflicts('json'))
    .run(async ({ api: all, options }: Context<{ zone?: boolean }>, name) => {
      const { api, id } = await findOne(all, 'domain', name, options)
      const warnings = (await readHostnameWarnings(api)).map((warning) => `Warning: ${warning}`)
      printResult(options, await api.domains.get(id), ({ data }) =>
        options.zone
          ? [...warnings.map((warning) => `; ${warning}`), formatZone(data)].join('\n')
          : joinParagraphs(...warnings, formatRecords(data), describeState(data), formatFormer(data)),
      )
    })

  domains
    .add(
      'rotate-dkim',
      'create new DKIM keys, which sign once their DNS records are found; the present ones sign until then',
    )
    .account()
    .argument('[domain]', 'name or ID')
    .option('--all', 'all verified domains of the account')
    .answer(
      async ({ api: all, options }: Context<{ all?: boolean }>, name?: string) => {
        if ((name === undefined) === (options.all === undefined))
          throw new UsageError('Name a domain, or use --all for all verified domains of the account.')
        const found = name === undefined ? undefined : await findOne(all, 'domain', name, options)
        const api = found?.api ?? all
        const ids = found ? [found.id] : await listVerified(api)
        const rotated: Domain[] = []
        for (const id of ids) rotated.push((await api.domains.rotateDkim(id)).data)
        return { data: rotated }
      },
      ({ data }) =>
        data
          .flatMap((domain) => [formatRecords(domain, ['dkim_next', 'dkim_ed25519_next']), describeState(domain)])
          .join('\n\n') || 'The account has no verified domain, so there are no DKIM keys to rotate.',
    )

  addDomainCommand('verify', 'check DNS now; exit code 1 if a record needed to send is missing')
    .option('--without-dns', WITHOUT_DNS_DESCRIPTION)
    .run(async ({ api: all, options }: Context<{ withoutDns?: boolean }>, name) => {
      const { api, id, account_id: account } = await findOne(all, 'domain', name, options)
      if (options.withoutDns) {
        const marked = await api.operator.verifyAccountDomainWithoutDns(account, id)
        const sentence =
          'counts as verified and accepts mail, without a DNS check. This expires 72 hours after a check (every 6 hours, or `tassis domains verify`) finds that its records are missing.'
        return printResult(options, marked, ({ data }) => `${data.domain} ${sentence}`)
      }
      const found = await api.domains.verify(id)
      if (!found.data.fully_verified) process.exitCode = 1
      printResult(options, found, ({ data: { domain, checks, fully_verified: isVerified } }) =>
        [
          formatChecks(checks),
          isVerified
            ? `${domain.domain} is verified: its mail is sent.`
            : `${domain.domain} is not verified, or will lose that. ${describeState(domain)}\n\`tassis domains records ${domain.domain}\` prints the records to publish.`,
        ].join('\n\n'),
      )
    })

  addDomainCommand(
    'remove',
    'remove a domain: nothing more is sent or received for it, and its scheduled mail is cancelled',
  )
    .option('--yes', 'do not ask')
    .answer(
      async ({ api: all, options }: Context<{ yes?: boolean }>, name) => {
        const { api, ...domain } = await findOne(all, 'domain', name, options)
        confirmAction(options, `${domain.label} would be removed with its DKIM keys`, 'remove it')
        await api.domains.delete(domain.id)
        return { data: domain }
      },
      ({ data: { label } }) =>
        `Removed ${label}: its scheduled mail is cancelled, and mail to it is rejected. What was queued before is still sent, signed with its key.`,
    )
}

/** Records name the host of the service, so its name must be right before they are published. */
async function readHostnameWarnings(api: CommandApi): Promise<readonly string[]> {
  const { data } = await api.operator.listSettings()
  return findHostnameWarnings({ hostname: data.find(({ variable }) => variable === 'TASSIS_HOSTNAME')?.value ?? '' })
}

async function listVerified(api: CommandApi): Promise<string[]> {
  const ids: string[] = []
  for await (const { id, status } of api.domains.list({ per_page: 100 })) if (status === 'verified') ids.push(id)
  return ids
}

/** Says how its mail is handled while records are missing, and what waits for DNS; empty if all is well. */
function describeState(shown: Domain): string {
  const { status, dns_records: records, covered_by: parent, records_lost_at: lostAt, sends_until: until } = shown
  const isVerified = status === 'verified'
  const cover = parent === undefined ? '' : `Its mail is sent under ${parent}, which is verified and signs it. `
  if (lostAt && until)
    return `${cover}Missing since ${formatUtc(lostAt)}: ${shown.lost_records?.join(', ')}; ${isVerified ? 'its mail is sent until' : 'it lost its own verification at'} ${formatUtc(until)}.`
  if (!isVerified) {
    const missing = SENDING_RECORDS.filter((key) => !records[key].verified).join(', ')
    return `${cover || 'Until it is verified, its mail is captured or refused (TASSIS_SENDING_UNVERIFIED). '}Missing: ${missing}.`
  }
  if (records.dkim_next)
    return `The present DKIM key (${shown.dkim_selector}) signs until a DNS check finds the new records: every 5 minutes on the first day, then less often, or now with \`tassis domains verify\`.`
  return shown.checked_at ? '' : 'It was marked verified without a DNS check.'
}

/** How long the records of former selectors must stay: receivers still verify mail with them. */
const formatFormer = ({ former_dkim_selectors: former = [] }: Domain): string =>
  formatPage({ data: former }, '', {
    'FORMER DKIM SELECTOR': ({ selector }) => selector,
    'REMOVE ITS RECORDS': ({ keep_until: at }) => `after ${formatUtcFromNow(at)}`,
  })

type Records = Domain['dns_records']
type Key = keyof Records

/** In the order in which they are shown. */
const PURPOSES: Readonly<Record<Key, string>> = {
  spf: 'SPF, needed to send',
  dkim: 'DKIM, needed to send',
  dmarc: 'DMARC, recommended; keep an existing record',
  return_path: 'return path for bounces, needed to send',
  mx: 'inbound, only if Tassis is to receive the mail of this domain INSTEAD OF its present mail server',
  dkim_ed25519: 'DKIM with Ed25519, optional: mail gets a second signature',
  dkim_next: 'DKIM, new key: signs once this record is found; keep the present one',
  dkim_ed25519_next: 'DKIM with Ed25519, new key: likewise',
  tracking: 'host of tracked links; may be in another domain',
}

const KEYS = Object.keys(PURPOSES) as Key[]

const listRecords = (records: Records, keys = KEYS) =>
  keys.flatMap((key) => {
    const record = records[key]
    return record ? [{ key, ...record }] : []
  })

/** Formats one block per record, with each value on its own line. */
function formatRecords({ domain, dns_records: records, checked_at: checkedAt }: Domain, keys = KEYS): string {
  // Without a check, an operator has marked the domain verified.
  const found = checkedAt ? ' (found)' : ' (not checked)'
  const blocks = listRecords(records, keys).map(({ key, type, host, priority, value, verified }) =>
    [
      `${PURPOSES[key]}${verified ? found : ''}`,
      `  Type      ${type}`,
      `  Name      ${host}`,
      ...(priority === undefined ? [] : [`  Priority  ${priority}`]),
      `  Value     ${value}`,
    ].join('\n'),
  )
  return [`Publish these records in the DNS of ${domain}:`, ...blocks].join('\n\n')
}

/** Formats the result of each check; a missing record is a problem only if sending needs it. */
function formatChecks(checks: VerifyDomainResult['checks']): string {
  const rows = Object.entries(checks).map(([key, { verified, detail }]) => {
    const isNeeded = SENDING_RECORDS.some((needed) => needed === key)
    const problem = isUnanswered(detail) ? 'unknown' : isNeeded ? 'NOT OK' : 'optional'
    return [key, verified ? 'ok' : problem, detail]
  })
  return formatTable(['RECORD', '', 'FOUND'], rows)
}

/**
 * Formats one line per record, TXT values in strings of at most 255 octets. The inbound MX is commented out, because
 * publishing it redirects the domain's mail.
 */
const formatZone = ({ dns_records: records }: Domain): string =>
  listRecords(records)
    .map((record) => {
      const line = formatZoneLine(`${record.host}.`, record)
      return record.key === 'mx' ? `; ${PURPOSES.mx}:\n; ${line}` : line
    })
    .join('\n')
