/** @module `tassis domains`: registers domains, shows the DNS records to publish and checks DNS. */

import { Option } from 'commander'
import type { Domain } from '#client/api.ts'
import { findHostnameWarnings } from '#features/setup/domains/dns-records.ts'
import { SENDING_RECORDS } from '#features/setup/domains/verification-state.ts'
import { systemClock } from '#platform/time/clock.ts'
import { type CommandApi, findOne } from './api.ts'
import type { Command, Context } from './command.ts'
import { formatChecks, formatRecords, formatZone } from './dns-text.ts'
import { UsageError } from './errors.ts'
import { confirmAction } from './input.ts'
import type { AccountOption, JsonOption } from './options.ts'
import { type Columns, formatUtc, printResult, toPrintable } from './output.ts'

type Options = JsonOption & AccountOption

/** Those settings of the service on which the domains depend. */
async function readSettings(api: CommandApi) {
  const { data } = await api.operator.listSettings()
  const read = (name: string): string => data.find(({ variable }) => variable === name)?.value ?? ''
  return {
    rejectsUnverified: read('TASSIS_SENDING_UNVERIFIED') === 'reject',
    inboundAddr: read('TASSIS_INBOUND_ADDR'),
    dnsServers: read('TASSIS_DNS_SERVERS') || 'the DNS servers of the system',
    warnings: findHostnameWarnings({ hostname: read('TASSIS_HOSTNAME') }),
  }
}

const FULL_PAGE = { per_page: 100 }

const toWarnings = (texts: readonly string[]): string[] => texts.map((text) => `Warning: ${text}\n`)

const DOMAIN_COLUMNS: Columns<Domain> = {
  DOMAIN: ({ domain }) => domain,
  STATE: (domain) => formatState(domain),
  'LAST CHECK': ({ checked_at: at }) => (at ? formatUtc(at) : 'never'),
  ID: ({ id }) => id,
  '': (domain) => describeMissingRecords(domain),
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
      const { rejectsUnverified, warnings } = await readSettings(api)
      printResult(options, created, ({ data, warnings: ofName = [] }) =>
        [
          `Registered ${data.domain} (${data.id}). ${describeUntilVerified(data, rejectsUnverified)}`,
          ...[...ofName, ...warnings].map((warning) => `Note: ${toPrintable(warning)}`),
          '',
          formatRecords(data),
          '',
          `Then: tassis domains verify ${data.domain}`,
        ].join('\n'),
      )
    })

  domains
    .add('list', 'list the domains of an account')
    .account()
    .list(
      ({ api }) => api.domains.list(FULL_PAGE),
      'The account has no domain; add one with `tassis domains add example.com`.',
      DOMAIN_COLUMNS,
    )

  addDomainCommand('records', 'print the DNS records to publish')
    .addOption(new Option('--zone', 'print zone file lines').conflicts('json'))
    .run(async ({ api: all, options }: Context<{ zone?: boolean }>, name) => {
      const { api, id } = await findOne(all, 'domain', name, options)
      const { warnings } = await readSettings(api)
      printResult(options, await api.domains.get(id), ({ data }) =>
        options.zone
          ? [...warnings.map((warning) => `; Warning: ${warning}`), formatZone(data)].join('\n')
          : [
              ...toWarnings(warnings),
              formatRecords(data),
              ...[describeRotation(data), ...describeFormer(data), describeUnchecked(data)]
                .filter(Boolean)
                .map((text) => `\n${text}`),
            ].join('\n'),
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
      async ({ api, options }: Context<{ all?: boolean }>, name?: string) => {
        if ((name === undefined) === (options.all === undefined))
          throw new UsageError('Name a domain, or use --all for all verified domains of the account.')
        const found = name === undefined ? { api, ids: await listVerified(api) } : await findId(api, name, options)
        const rotated: Domain[] = []
        for (const id of found.ids) rotated.push((await found.api.domains.rotateDkim(id)).data)
        return { data: rotated }
      },
      ({ data }) =>
        data.length === 0
          ? 'The account has no verified domain, so there are no DKIM keys to rotate.'
          : data
              .flatMap((domain) => [
                formatRecords(domain, ['dkim_next', 'dkim_ed25519_next']),
                describeRotation(domain),
              ])
              .join('\n\n'),
    )

  addDomainCommand('verify', 'check DNS now; exit code 1 if a record needed to send is missing')
    .option('--without-dns', WITHOUT_DNS_DESCRIPTION)
    .run(async ({ api, options }: Context<{ withoutDns?: boolean }>, name) => {
      const found = await findOne(api, 'domain', name, options)
      await (options.withoutDns ? markVerified : checkDns)(found, options)
    })

  addDomainCommand(
    'remove',
    'remove a domain: nothing more is sent or received for it, and its scheduled mail is cancelled',
  )
    .option('--yes', 'do not ask')
    .answer(
      async ({ api: all, options }: Context<{ yes?: boolean }>, name) => {
        const { api, ...domain } = await findOne(all, 'domain', name, options)
        confirmAction(options, `${toPrintable(domain.label)} would be removed with its DKIM keys`, 'remove it')
        await api.domains.delete(domain.id)
        return { data: domain }
      },
      ({ data: { label } }) =>
        `Removed ${toPrintable(label)}: its scheduled mail is cancelled, and mail to it is rejected. What was queued before is still sent, signed with its key.`,
    )
}

type Found = Awaited<ReturnType<typeof findOne>>

async function findId(all: CommandApi, name: string, options: Options) {
  const { api, id } = await findOne(all, 'domain', name, options)
  return { api, ids: [id] }
}

async function listVerified(api: CommandApi): Promise<string[]> {
  const ids: string[] = []
  for await (const { id, status } of api.domains.list(FULL_PAGE)) if (status === 'verified') ids.push(id)
  return ids
}

async function checkDns({ api, id }: Found, options: JsonOption): Promise<void> {
  const { data: before } = await api.domains.get(id)
  const settings = await readSettings(api)
  const found = await api.domains.verify(id)
  printResult(options, found, ({ data: { domain, checks, fully_verified: isVerified } }) =>
    [
      ...toWarnings(settings.warnings),
      formatChecks(checks, settings.dnsServers),
      '',
      isVerified
        ? `${domain.domain} is verified: its mail is sent.`
        : `${describeStatus(domain, settings.rejectsUnverified)} \`tassis domains records ${domain.domain}\` prints the records to publish.`,
      ...(before.status === 'verified' && before.inbound_enabled && domain.status !== 'verified'
        ? [`${domain.domain} no longer accepts mail: senders get a permanent rejection (550).`]
        : []),
    ].join('\n'),
  )
  if (!found.data.fully_verified) process.exitCode = 1
}

async function markVerified({ api, id, account_id: account }: Found, options: JsonOption): Promise<void> {
  const { inboundAddr } = await readSettings(api)
  printResult(options, await api.operator.verifyAccountDomainWithoutDns(account, id), ({ data: { domain } }) =>
    [
      `${domain} counts as verified and accepts mail, without a DNS check. This expires 72 hours after a check (every 6 hours, or \`tassis domains verify\`) finds that its records are missing.`,
      ...(inboundAddr === ''
        ? ['Warning: The service receives no mail until it runs with TASSIS_INBOUND_ADDR, such as 127.0.0.1:2525.']
        : []),
    ].join('\n'),
  )
}

/** Explains what happens to new DKIM keys; empty without a rotation. */
const describeRotation = ({ domain, dkim_selector: selector, dns_records: records }: Domain): string =>
  records.dkim_next
    ? `Publish the new DKIM records beside the present ones. The present key (${selector}) signs until a DNS check finds them: every 5 minutes on the first day, then less often, or now with \`tassis domains verify ${domain}\`.`
    : ''

const describeUnchecked = ({ domain, status, checked_at: checkedAt }: Domain): string =>
  status === 'verified' && !checkedAt
    ? `${domain} was marked verified without a DNS check. \`tassis domains verify ${domain}\` looks the records up.`
    : ''

/** Says how long the records of former selectors must stay, one line each. */
const describeFormer = ({ domain, former_dkim_selectors: former = [] }: Domain): string[] =>
  former.map(({ selector, keep_until: until }) => {
    const names = [selector, `${selector}e`].map((label) => `${label}._domainkey.${domain}`).join(' and ')
    return Date.parse(until) > systemClock.now()
      ? `Keep ${names} until ${formatUtc(until)}: receivers still verify mail with these former DKIM keys.`
      : `Remove ${names} from DNS: these former DKIM keys are no longer needed since ${formatUtc(until)}.`
  })

/** Describes how mail of a domain that was never verified is handled. */
const describeUntilVerified = ({ covered_by: parent }: Domain, isRejected: boolean): string =>
  parent === undefined
    ? `Until it is verified, its mail is ${isRejected ? 'refused' : 'only captured'}.`
    : `Its mail is sent under ${parent}, which is verified; once verified itself, under its own name. Until then ${parent} signs it.`

/** Describes in sentences what a domain with missing records may do. */
function describeStatus(shown: Domain, isRejected: boolean): string {
  const { domain, records_lost_at: lostAt, lost_records: lost = [], sends_until: until, covered_by: parent } = shown
  if (!lostAt || !until) return `${domain} is not verified. ${describeUntilVerified(shown, isRejected)}`
  const since = `${domain} was verified, but records have been missing since ${formatUtc(lostAt)} (${lost.join(', ')}):`
  if (shown.status === 'verified') return `${since} its mail is sent until ${formatUtc(until)}, then refused.`
  if (parent !== undefined) return `${since} its mail is sent under ${parent}, which is verified and signs it.`
  return `${since} its mail has been refused since ${formatUtc(until)}.`
}

function formatState({ status, records_lost_at: lostAt, covered_by: parent }: Domain): string {
  if (status === 'verified') return lostAt ? 'losing' : 'verified'
  if (parent !== undefined) return 'covered'
  return lostAt ? 'lost' : 'unverified'
}

/** Lists the missing records that sending needs, and the consequence. */
function describeMissingRecords(shown: Domain): string {
  const { domain, dns_records: records, records_lost_at: lostAt, lost_records: lost = [], sends_until: until } = shown
  const isVerified = shown.status === 'verified'
  const cover = shown.covered_by === undefined ? '' : `; sends under ${shown.covered_by}`
  if (lostAt && until) {
    const end = cover || `; ${isVerified ? 'sends until' : 'refused since'} ${formatUtc(until)}`
    return `missing since ${formatUtc(lostAt)}: ${lost.join(', ')}${end}`
  }
  if (isVerified) {
    if (records.dkim_next) return 'new DKIM keys wait for their records'
    if (!shown.checked_at) return 'marked verified without a DNS check'
    return shown.former_dkim_selectors ? `former DKIM keys: see \`tassis domains records ${domain}\`` : ''
  }
  const missing = SENDING_RECORDS.filter((key) => !records[key].verified)
  return missing.length > 0 ? `missing: ${missing.join(', ')}${cover}` : cover.slice(2)
}
