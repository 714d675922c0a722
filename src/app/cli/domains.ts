/** @module `tassis domains`: registers domains, shows the DNS records to publish and checks DNS. */

import { type Command, Option } from 'commander'
import type { Actor, App } from '#features/core/app/app.ts'
import { deleteDomain } from '#features/sending/emails/delete-domain.ts'
import {
  DNS_RECORD_KEYS,
  type DnsRecord,
  findHostnameWarnings,
  OPTIONAL_RECORD_KEYS,
} from '#features/setup/domains/dns-records.ts'
import { createDomain, type Domain, listDnsRecords, listDomains } from '#features/setup/domains/domains.ts'
import { getKeepUntil, startDkimRotation } from '#features/setup/domains/rotate-dkim.ts'
import { findCoveringDomain } from '#features/setup/domains/sending.ts'
import { getSendsUntil, listLostRecords, SENDING_RECORDS } from '#features/setup/domains/verification-state.ts'
import { verifyDomain, vouchForDomain } from '#features/setup/domains/verify.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Config } from '#platform/settings/config.ts'
import { systemClock } from '#platform/time/clock.ts'
import { readSystemServers } from '#protocols/dns/servers.ts'
import { resolveOperator } from '../find-account.ts'
import { loadConfig } from '../settings.ts'
import { defineAdminCommand, UsageError } from './admin-command.ts'
import { runAdminCommand, withData } from './call.ts'
import { confirmAction } from './confirm.ts'
import { formatChecks, formatRecords, formatZone, type RecordView } from './dns-text.ts'
import { type DomainInput, requireDomain, toDomainInput } from './find-domain.ts'
import { type AccountOption, addCommand, type JsonOption, withAccount } from './options.ts'
import { formatUtc, printList, printResult, toList, toPrintable } from './output.ts'

interface RemoveInput extends DomainInput {
  /** False: only finds it. */
  readonly isConfirmed: boolean
}

/** Also finds the domain before the question, so that a wrong name is said first. */
const removeDomain = defineAdminCommand(
  'domains.remove',
  async ({ opened: { app } }, { isConfirmed, ...input }: RemoveInput) => {
    const { actor, domain } = requireDomain(app, input)
    const id = formatUuid(domain.uuid)
    if (isConfirmed) await deleteDomain(app, actor, id)
    return { id, domain: domain.domain, account_id: actor.accountUuid, removed: isConfirmed }
  },
)

/** @param domains the group `tassis domains` */
const addRemoveDomainCommand = (domains: Command): Command =>
  withAccount(
    addCommand(
      domains,
      'remove',
      'remove a domain: nothing more is sent or received for it, and its scheduled mail is cancelled',
    ),
  )
    .argument('<domain>', 'name or ID')
    .option('--yes', 'do not ask')
    .action(async (requested: string, options: JsonOption & AccountOption & { readonly yes?: boolean }) => {
      const input = toDomainInput(requested, options)
      const done = await withData(loadConfig().config, async (call) => {
        const { domain, account_id } = await call(removeDomain, { ...input, isConfirmed: false })
        confirmAction(options, `${toPrintable(domain)} would be removed with its DKIM keys`, 'remove it')
        return call(removeDomain, { domain, account: account_id, isConfirmed: true })
      })
      printResult(
        options,
        done,
        ({ domain }) =>
          `Removed ${toPrintable(domain)}: its scheduled mail is cancelled, and mail to it is rejected. What was queued before is still sent, signed with its key.`,
      )
    })

function toDomainView(app: App, domain: Domain) {
  const records = listDnsRecords(app.config, domain)
  return {
    id: formatUuid(domain.uuid),
    domain: domain.domain,
    verified: domain.verifiedAt !== null,
    verified_at: isoTimeOrNull(domain.verifiedAt),
    // Since when records of the verified domain are missing, which ones, and until when it may send without them.
    records_lost_at: isoTimeOrNull(domain.recordsLostAt),
    lost_records: listLostRecords(domain),
    sends_until: isoTimeOrNull(getSendsUntil(domain)),
    // Until this domain is verified itself, this parent's verification covers its mail.
    covered_by: findCoveringDomain(app.db, domain) ?? null,
    checked_at: isoTimeOrNull(domain.checkedAt),
    created_at: isoTime(domain.createdAt),
    dns_records: [...DNS_RECORD_KEYS, ...OPTIONAL_RECORD_KEYS].flatMap((key) => {
      const record = records[key]
      return record === undefined ? [] : [toRecordView(key, record)]
    }),
    dkim_selector: domain.dkimSelector,
    former_dkim_selectors: domain.formerDkim.map((former) => ({
      selector: former.selector,
      keep_until: isoTime(getKeepUntil(former)),
    })),
  }
}

type DomainView = ReturnType<typeof toDomainView>

const toRecordView = (key: RecordView['key'], { type, host, value, priority, verified }: DnsRecord): RecordView => ({
  key,
  type,
  host,
  value,
  priority: priority ?? null,
  verified,
})

const add = defineAdminCommand('domains.add', async ({ opened: { app } }, { account, domain }: DomainInput) => {
  const created = await createDomain(app, resolveOperator(app, account), domain)
  return {
    ...toDomainView(app, created.domain),
    unverified: app.config.sendingUnverified,
    warnings: [...created.warnings, ...findHostnameWarnings(app.config)],
  }
})

const WARNING_PREFIX = 'Warning: '

const MAX_LISTED = 1000

const list = defineAdminCommand('domains.list', ({ opened: { app } }, { account }: AccountOption) => {
  const { accountId } = resolveOperator(app, account)
  const { domains, total } = listDomains(app.db, accountId, { limit: MAX_LISTED, offset: 0 })
  const rows = domains.map((domain) => toDomainView(app, domain))
  return toList(rows, total)
})

const records = defineAdminCommand('domains.records', ({ opened: { app } }, input: DomainInput) => ({
  ...toDomainView(app, requireDomain(app, input).domain),
  warnings: findHostnameWarnings(app.config),
}))

const verify = defineAdminCommand('domains.verify', async ({ opened: { app } }, input: DomainInput) => {
  const { actor, domain: before } = requireDomain(app, input)
  const found = await verifyDomain(app, actor, formatUuid(before.uuid))
  return {
    ...toDomainView(app, found.domain),
    checks: found.checks,
    fully_verified: found.fullyVerified,
    unverified: app.config.sendingUnverified,
    took_mail_before: acceptsMail(before),
    warnings: findHostnameWarnings(app.config),
    dns_servers: app.config.dnsServers.length > 0 ? app.config.dnsServers : readSystemServers(),
  }
})

/** Whether the domain is verified and configured to accept mail. */
const acceptsMail = ({ verifiedAt, inboundEnabled }: Domain): boolean => verifiedAt !== null && inboundEnabled

const markVerified = defineAdminCommand(
  'domains.verify-without-dns',
  async ({ opened: { app } }, input: DomainInput) => {
    const { actor, domain } = requireDomain(app, input)
    return {
      ...toDomainView(app, await vouchForDomain(app, actor, formatUuid(domain.uuid))),
      warnings:
        app.config.inboundAddr === ''
          ? ['The service receives no mail until it runs with TASSIS_INBOUND_ADDR, such as 127.0.0.1:2525.']
          : [],
    }
  },
)

interface RotateDkimInput extends AccountOption {
  /** Name or id; null: all verified domains of the account. */
  readonly domain: string | null
}

interface ChosenDomains {
  readonly actor: Actor
  readonly chosen: readonly Domain[]
}

function listVerified(app: App, { account }: AccountOption): ChosenDomains {
  const actor = resolveOperator(app, account)
  const { domains } = listDomains(app.db, actor.accountId, { limit: MAX_LISTED, offset: 0 })
  return { actor, chosen: domains.filter(({ verifiedAt }) => verifiedAt !== null) }
}

function chooseOne(app: App, input: DomainInput): ChosenDomains {
  const { actor, domain } = requireDomain(app, input)
  return { actor, chosen: [domain] }
}

const rotateDkim = defineAdminCommand(
  'domains.rotate-dkim',
  async ({ opened: { app } }, { domain, ...owner }: RotateDkimInput) => {
    const { actor, chosen } = domain === null ? listVerified(app, owner) : chooseOne(app, { domain, ...owner })
    const views: DomainView[] = []
    for (const { uuid } of chosen) views.push(toDomainView(app, await startDkimRotation(app, actor, formatUuid(uuid))))
    return views
  },
)

export const domainAdminCommands = [add, list, records, verify, markVerified, removeDomain, rotateDkim]

export function addDomainCommands(program: Command): void {
  const domains = program.command('domains').description('register, verify and remove sending domains')

  withAccount(addCommand(domains, 'add', 'register a domain and print the DNS records to publish'))
    .argument('<domain>', 'such as example.com')
    .action(async (domain: string, options: JsonOption & AccountOption) => {
      printResult(options, await runAdminCommand(add, toDomainInput(domain, options)), (shown) =>
        [
          `Registered ${shown.domain} (${shown.id}). ${describeUntilVerified(shown)}`,
          ...shown.warnings.map((warning) => `Note: ${toPrintable(warning)}`),
          '',
          formatRecords(shown.domain, shown.dns_records, shown.checked_at !== null),
          '',
          `Then: tassis domains verify ${shown.domain}`,
        ].join('\n'),
      )
    })

  withAccount(addCommand(domains, 'list', 'list the domains of an account')).action(
    async (options: JsonOption & AccountOption) => {
      printList(
        options,
        await runAdminCommand(list, options),
        'The account has no domain; add one with `tassis domains add example.com`.',
        ['DOMAIN', 'STATE', 'LAST CHECK', 'ID', ''],
        (domain) => [
          domain.domain,
          formatState(domain),
          domain.checked_at === null ? 'never' : formatUtc(domain.checked_at),
          domain.id,
          describeMissingRecords(domain),
        ],
      )
    },
  )

  withAccount(addCommand(domains, 'records', 'print the DNS records to publish'))
    .argument('<domain>', 'name or ID')
    .addOption(new Option('--zone', 'print zone file lines').conflicts('json'))
    .action(async (domain: string, options: JsonOption & AccountOption & { zone?: boolean }) => {
      printResult(options, await runAdminCommand(records, toDomainInput(domain, options)), (shown) =>
        options.zone
          ? [...shown.warnings.map((warning) => `; ${WARNING_PREFIX}${warning}`), formatZone(shown.dns_records)].join(
              '\n',
            )
          : [
              ...shown.warnings.map((warning) => `${WARNING_PREFIX}${warning}\n`),
              formatRecords(shown.domain, shown.dns_records, shown.checked_at !== null),
              ...[describeRotation(shown), ...describeFormer(shown), describeUnchecked(shown)]
                .filter(Boolean)
                .map((text) => `\n${text}`),
            ].join('\n'),
      )
    })

  withAccount(
    addCommand(
      domains,
      'rotate-dkim',
      'create new DKIM keys, which sign once their DNS records are found; the present ones sign until then',
    ),
  )
    .argument('[domain]', 'name or ID')
    .option('--all', 'all verified domains of the account')
    .action(async (domain: string | undefined, options: JsonOption & AccountOption & { all?: boolean }) => {
      if ((domain === undefined) === (options.all === undefined))
        throw new UsageError('Name a domain, or use --all for all verified domains of the account.')
      const input = { domain: domain ?? null, account: options.account }
      const rotated = await runAdminCommand(rotateDkim, input)
      printResult(options, toList(rotated), ({ data: shown }) =>
        shown.length === 0
          ? 'The account has no verified domain, so there are no DKIM keys to rotate.'
          : shown.map(formatRotation).join('\n\n'),
      )
    })

  withAccount(addCommand(domains, 'verify', 'check DNS now; exit code 1 if a record needed to send is missing'))
    .argument('<domain>', 'name or ID')
    .option('--without-dns', `${WITHOUT_DNS_DESCRIPTION}; expires 72 hours after a check that finds no records`)
    .action((domain: string, { withoutDns, ...options }: VerifyOptions) =>
      withoutDns ? markDomainVerified(domain, options) : checkDns(domain, options),
    )

  addRemoveDomainCommand(domains)
}

const formatRotation = (view: DomainView): string =>
  [
    formatRecords(
      view.domain,
      view.dns_records.filter(({ key }) => key === 'dkim_next' || key === 'dkim_ed25519_next'),
      view.checked_at !== null,
    ),
    describeRotation(view),
  ].join('\n\n')

/** Explains what happens to new DKIM keys; empty without a rotation. */
function describeRotation({ domain, dkim_selector: selector, dns_records: records }: DomainView): string {
  if (!records.some(({ key }) => key === 'dkim_next')) return ''
  return `Publish the new DKIM records beside the present ones. The present key (${selector}) signs until a DNS check finds them: every 5 minutes on the first day, then less often, or now with \`tassis domains verify ${domain}\`.`
}

const describeUnchecked = ({ domain, verified, checked_at: checkedAt }: DomainView): string =>
  verified && checkedAt === null
    ? `${domain} was marked verified without a DNS check. \`tassis domains verify ${domain}\` looks the records up.`
    : ''

/** Says how long the records of former selectors must stay, one line each. */
const describeFormer = ({ domain, former_dkim_selectors: former }: DomainView): string[] =>
  former.map(({ selector, keep_until: until }) =>
    Date.parse(until) > systemClock.now()
      ? `Keep ${selector}._domainkey.${domain} and ${selector}e._domainkey.${domain} until ${formatUtc(until)}: receivers still verify mail with these former DKIM keys.`
      : `Remove ${selector}._domainkey.${domain} and ${selector}e._domainkey.${domain} from DNS: these former DKIM keys are no longer needed since ${formatUtc(until)}.`,
  )

const WITHOUT_DNS_DESCRIPTION = 'mark a domain verified without a DNS check, for testing'

interface VerifyOptions extends JsonOption, AccountOption {
  readonly withoutDns?: boolean | undefined
}

async function checkDns(domain: string, options: JsonOption & AccountOption): Promise<void> {
  const found = await runAdminCommand(verify, toDomainInput(domain, options))
  printResult(options, found, (shown) =>
    [
      ...shown.warnings.map((warning) => `${WARNING_PREFIX}${warning}\n`),
      formatChecks(shown.checks, shown.dns_servers),
      '',
      shown.fully_verified
        ? `${shown.domain} is verified: its mail is sent.`
        : `${describeStatus(shown)} \`tassis domains records ${shown.domain}\` prints the records to publish.`,
      ...(shown.took_mail_before && !shown.verified
        ? [`${shown.domain} no longer accepts mail: senders get a permanent rejection (550).`]
        : []),
    ].join('\n'),
  )
  if (!found.fully_verified) process.exitCode = 1
}

async function markDomainVerified(domain: string, options: JsonOption & AccountOption): Promise<void> {
  printResult(options, await runAdminCommand(markVerified, toDomainInput(domain, options)), (shown) =>
    [
      `${shown.domain} counts as verified and accepts mail, without a DNS check. This expires 72 hours after a check (every 6 hours, or \`tassis domains verify\`) finds that its records are missing.`,
      ...shown.warnings.map((warning) => `${WARNING_PREFIX}${warning}`),
    ].join('\n'),
  )
}

type UnverifiedPolicy = Config['sendingUnverified']

/** Describes how mail of a domain that was never verified is handled. */
function describeUntilVerified({
  covered_by: parent,
  unverified,
}: DomainView & { readonly unverified: UnverifiedPolicy }): string {
  if (parent !== null)
    return `Its mail is sent under ${parent}, which is verified; once verified itself, under its own name. Until then ${parent} signs it.`
  return `Until it is verified, its mail is ${unverified === 'reject' ? 'refused' : 'only captured'}.`
}

/** Describes in sentences what a domain with missing records may do. */
function describeStatus(shown: DomainView & { readonly unverified: UnverifiedPolicy }): string {
  const {
    domain,
    verified,
    records_lost_at: lostAt,
    lost_records: lost,
    sends_until: until,
    covered_by: parent,
  } = shown
  if (lostAt === null || until === null) return `${domain} is not verified. ${describeUntilVerified(shown)}`
  const since = `${domain} was verified, but records have been missing since ${formatUtc(lostAt)} (${lost.join(', ')}):`
  if (verified) return `${since} its mail is sent until ${formatUtc(until)}, then refused.`
  if (parent !== null) return `${since} its mail is sent under ${parent}, which is verified and signs it.`
  return `${since} its mail has been refused since ${formatUtc(until)}.`
}

function formatState({ verified, records_lost_at: lostAt, covered_by: parent }: DomainView): string {
  if (verified) return lostAt === null ? 'verified' : 'losing'
  if (parent !== null) return 'covered'
  return lostAt === null ? 'unverified' : 'lost'
}

/** Lists the missing records that sending needs, and the consequence. */
function describeMissingRecords(shown: DomainView): string {
  const { dns_records: records, verified, records_lost_at: lostAt, lost_records: lost, sends_until: until } = shown
  const coverText = shown.covered_by === null ? '' : `; sends under ${shown.covered_by}`
  if (lostAt !== null && until !== null) {
    const end = coverText === '' ? `; ${verified ? 'sends until' : 'refused since'} ${formatUtc(until)}` : coverText
    return `missing since ${formatUtc(lostAt)}: ${lost.join(', ')}${end}`
  }
  if (verified) {
    if (records.some(({ key }) => key === 'dkim_next')) return 'new DKIM keys wait for their records'
    if (shown.checked_at === null) return 'marked verified without a DNS check'
    const isFormerShown = shown.former_dkim_selectors.length > 0
    return isFormerShown ? `former DKIM keys: see \`tassis domains records ${shown.domain}\`` : ''
  }
  const missing = records.filter(
    ({ key, verified: isPublished }) => SENDING_RECORDS.some((needed) => needed === key) && !isPublished,
  )
  return missing.length > 0 ? `missing: ${missing.map(({ key }) => key).join(', ')}${coverText}` : coverText.slice(2)
}
