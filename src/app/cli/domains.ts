/**
 * @module `tassis domains`: registers domains, shows the DNS records to publish and checks DNS; `tassis certificates`:
 * which certificates clients see, and makes failed orders due again.
 */
import { Option } from 'commander'
import type { Domain } from '#client/api.ts'
import type { OperatorCertificate } from '#client/operator-api.ts'
import { USE_NAMES } from '#features/setup/certificates/states.ts'
import { isUnanswered } from '#features/setup/domains/check-result.ts'
import { findHostnameWarnings } from '#features/setup/domains/dns-records.ts'
import { SENDING_RECORDS } from '#features/setup/domains/verification-state.ts'
import { formatZoneLine } from '#features/setup/domains/zone-file.ts'
import { type CommandApi, findOne } from './api.ts'
import type { Command, Context } from './command.ts'
import { confirmAction, readInput, UsageError } from './options.ts'
import * as output from './output.ts'
import { addPublishCommand } from './publish.ts'

export function addDomainCommands(program: Command): void {
  const addToGroup = program.group('domains', 'register, verify and remove sending domains', { domain: 'name or ID' })
  const add = (usage: string, description: string, meanings?: Readonly<Record<string, string>>): Command =>
    addToGroup(usage, description, meanings).account()

  add('add <domain>', 'register a domain and print the DNS records to publish', { domain: 'such as example.com' })
    .option('--dkim-key <file>', 'private RSA key in PEM that signs already; - for standard input')
    .option('--selector <name>', 'selector at which DNS has that key')
    .option('--return-path <host>', 'host name of the envelope sender, such as bounces.example.com')
    .run(async ({ api, options }: Context<{ dkimKey?: string; selector?: string; returnPath?: string }>, name) => {
      const { dkimKey, selector, returnPath } = options
      const created = await api.domains.create({
        domain: name,
        dkim_private_key: dkimKey === undefined ? undefined : readInput(dkimKey, 'key').toString(),
        dkim_selector: selector,
        return_path: returnPath,
      })
      const warnings = [...(created.warnings ?? []), ...(await readHostnameWarnings(api))]
      output.printResult(options, created, ({ data }) =>
        output.joinParagraphs(
          `Registered ${data.domain} (${data.id}). ${describeState(data)}`,
          ...warnings.map((warning) => `Note: ${warning}`),
          describeKey(data),
          formatRecords(data),
          `With a token of your DNS provider, or at your own BIND or Knot, this publishes them: tassis domains publish ${data.domain}\nAfter publishing them by hand: tassis domains verify ${data.domain}`,
        ),
      )
    })
  add('list', 'list the domains of an account').list(
    ({ api }: Context) => api.domains.list({ per_page: 100 }),
    'domain status checked_at id state',
    { state: describeState },
    'The account has no domain; add one with `tassis domains add example.com`.',
  )
  add('records <domain>', 'print the DNS records to publish')
    .addOption(new Option('--zone', 'print zone file lines').conflicts('json'))
    .run(async ({ api: all, options }: Context<{ zone?: boolean }>, name) => {
      const { api, id } = await findOne(all, 'domain', name, options)
      const warnings = (await readHostnameWarnings(api)).map((warning) => `Warning: ${warning}`)
      output.printResult(options, await api.domains.get(id), ({ data }) =>
        options.zone
          ? [...warnings.map((warning) => `; ${warning}`), formatZone(data)].join('\n')
          : output.joinParagraphs(
              ...warnings,
              formatRecords(data),
              describeState(data),
              describeKey(data),
              formatFormer(data),
            ),
      )
    })
  addPublishCommand(
    add(
      'publish <domain>',
      'publish the records at the DNS provider; exit code 1 if a record needed to send is missing',
    ),
  )
  add('rotate-dkim [domain]', 'create new DKIM keys; the present ones sign until the records of the new are found')
    .option('--all', 'all verified domains of the account')
    .answer(
      async ({ api: all, options }: Context<{ all?: boolean }>, name?: string) => {
        if ((name === undefined) === (options.all === undefined))
          throw new UsageError('Name a domain, or use --all for all verified domains of the account.')
        const found = name === undefined ? undefined : await findOne(all, 'domain', name, options)
        const api = found?.api ?? all
        const ids: string[] = found ? [found.id] : []
        if (!found)
          for await (const { id, status } of api.domains.list({ per_page: 100 }))
            if (status === 'verified') ids.push(id)
        const rotated: Domain[] = []
        for (const id of ids) rotated.push((await api.domains.rotateDkim(id)).data)
        return { data: rotated }
      },
      ({ data }) =>
        data
          .flatMap((domain) => [
            formatRecords(domain, ['dkim_next', 'dkim_ed25519_next']),
            'Where `tassis domains publish` keeps credentials, they are published within minutes.',
            describeState(domain),
          ])
          .join('\n\n') || 'The account has no verified domain, so there are no DKIM keys to rotate.',
    )
  add('verify <domain>', 'check DNS now; exit code 1 if a record needed to send is missing')
    .option('--without-dns', 'for testing: verified without a DNS check, until 72 hours after one that fails')
    .run(async ({ api: all, options }: Context<{ withoutDns?: boolean }>, name) => {
      const { api, id, account_id: account } = await findOne(all, 'domain', name, options)
      if (options.withoutDns)
        return output.printResult(
          options,
          await api.operator.verifyAccountDomainWithoutDns(account, id),
          ({ data }) =>
            `${data.domain} counts as verified and accepts mail, without a DNS check. This expires 72 hours after a check (every 6 hours, or \`tassis domains verify\`) finds that its records are missing.`,
        )
      const found = await api.domains.verify(id)
      if (!found.data.fully_verified) process.exitCode = 1
      // A missing record is a problem only if sending needs it.
      const rows = Object.entries(found.data.checks).map(([key, { verified, detail }]) => {
        const problem = SENDING_RECORDS.some((needed) => needed === key) ? 'NOT OK' : 'optional'
        return [key, verified ? 'ok' : isUnanswered(detail) ? 'unknown' : problem, detail]
      })
      output.printResult(options, found, ({ data: { domain, fully_verified: isVerified } }) =>
        output.joinParagraphs(
          output.formatTable(['RECORD', '', 'FOUND'], rows),
          isVerified
            ? `${domain.domain} is verified: its mail is sent.`
            : `${domain.domain} is not fully verified. ${describeState(domain)}\n\`tassis domains records ${domain.domain}\` prints the records to publish; \`tassis domains publish ${domain.domain}\` publishes them.`,
        ),
      )
    })
  add('rules <domain>', 'show the rules of receivers that are not met; exit code 1 if one is broken')
    .option('--all', 'show all rules, those that are met too')
    .run(async ({ api: all, options }: Context<{ all?: boolean }>, name) => {
      const { api, id } = await findOne(all, 'domain', name, options)
      const found = await api.domains.getRules(id)
      if (found.data.counts.broken > 0) process.exitCode = 1
      output.printResult(options, found, ({ data: { summary, receivers } }) => {
        const rules = receivers
          .flatMap(({ name, rules }) => rules.map((rule) => ({ ...rule, name })))
          .filter(({ fix }) => options.all || fix !== '')
        // What has one cause is one row.
        const groups = Map.groupBy(rules, ({ state, title, evidence }) => `${state} ${title} ${evidence}`)
        const rows = [...groups.values()].flatMap((group) => {
          const names = group.map(({ name }) => name).join(', ')
          return group.slice(0, 1).map((one) => [one.state, one.title, names, `${one.evidence} ${one.fix}`.trimEnd()])
        })
        return output.joinParagraphs(
          summary,
          rows.length > 0 && output.formatTable(['STATE', 'RULE', 'RECEIVERS', 'EVIDENCE AND WHAT TO DO'], rows),
        )
      })
    })
  add('remove <domain>', 'remove a domain: nothing is sent or received for it, and its scheduled mail is cancelled')
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

/** Says how its mail is handled while records are missing, and what waits for DNS; empty if all is well. */
function describeState(shown: Domain): string {
  const { status, dns_records: records, covered_by: parent, records_lost_at: lostAt, sends_until: until } = shown
  const isVerified = status === 'verified'
  const cover = parent === undefined ? '' : `Its mail is sent under ${parent}, which is verified and signs it. `
  if (lostAt && until)
    return `${cover}Missing since ${output.formatUtc(lostAt)}: ${shown.lost_records?.join(', ')}; ${isVerified ? 'its mail is sent until' : 'it lost its own verification at'} ${output.formatUtc(until)}.`
  if (!isVerified) {
    const missing = SENDING_RECORDS.filter((key) => !records[key].verified).join(', ')
    return `${cover || 'Until it is verified, its mail is captured or refused (TASSIS_SENDING_UNVERIFIED). '}Missing: ${missing}.`
  }
  if (records.dkim_next)
    return `The present DKIM key (${shown.dkim_selector}) signs until a DNS check finds the new records: every 5 minutes on the first day, then less often, or now with \`tassis domains verify\`.`
  return shown.checked_at ? '' : 'It was marked verified without a DNS check.'
}

/** Empty for a key of the size that receivers ask for. */
const describeKey = ({ domain, dkim_key_bits: bits, dns_records: { dkim_next: next } }: Domain): string =>
  bits >= 2048 || next
    ? ''
    : `Its DKIM key has ${bits} bits, which is weak; Gmail asks for 2,048. It keeps signing; \`tassis domains rotate-dkim ${domain}\` creates a new one.`

/** How long the records of former selectors must stay: receivers still verify mail with them. */
const formatFormer = ({ former_dkim_selectors: former = [] }: Domain): string =>
  output.formatPage({ data: former }, 'former_dkim_selector remove_its_records', {
    former_dkim_selector: ({ selector }) => selector,
    remove_its_records: ({ keep_until: at }) => `after ${output.formatUtcFromNow(at)}`,
  })

type Key = keyof Domain['dns_records']

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
  tls_reports: 'reports about TLS sessions with this server, optional',
}

const listRecords = ({ dns_records: records }: Domain, keys = Object.keys(PURPOSES) as Key[]) =>
  keys.flatMap((key) => {
    const record = records[key]
    return record ? [{ key, ...record }] : []
  })

/** Formats one block per record, with each value on its own line. */
function formatRecords(domain: Domain, keys?: Key[]): string {
  // Without a check, an operator has marked the domain verified.
  const found = domain.checked_at ? ' (found)' : ' (not checked)'
  const blocks = listRecords(domain, keys).map(
    ({ key, type, host: name, priority, value, further_values: others = [], verified }) =>
      `${PURPOSES[key]}${verified ? found : ''}\n${output.formatFields({ type, name, priority, value: [value, ...others].join(', and another with ') }, 2)}`,
  )
  return [`Publish these records in the DNS of ${domain.domain}:`, ...blocks].join('\n\n')
}

/** One line per record. The inbound MX is commented out, because publishing it redirects the domain's mail. */
const formatZone = (domain: Domain): string =>
  listRecords(domain)
    .flatMap(({ further_values: others = [], ...record }) => [record, ...others.map((value) => ({ ...record, value }))])
    .map((record) => {
      const line = formatZoneLine(`${record.host}.`, record)
      return record.key === 'mx' ? `; ${PURPOSES.mx}:\n; ${line}` : line
    })
    .join('\n')

export function addCertificateCommands(program: Command): void {
  const add = program.group('certificates', 'show the certificates of this service, or order them again')
  add('list', 'list the certificates that clients see').answer(
    async ({ api }) => api.operator.listCertificates(),
    (page) => {
      const problems = page.data.flatMap(({ host, mismatch, last_error: error, next_attempt_at: next }) => [
        ...(mismatch ? [`${mismatch.problem}\n  ${mismatch.fix}`] : []),
        ...(error === null
          ? []
          : [
              `${host}: ${error}\n  Next attempt ${next === null ? 'soon' : output.formatFromNow(next)}; \`tassis certificates retry\` makes it now.`,
            ]),
      ])
      const cells = {
        for: ({ use }: OperatorCertificate) => USE_NAMES[use],
        not_after: ({ not_after: at }: OperatorCertificate) => at && output.formatUtcFromNow(at),
      }
      const none = 'No certificates: neither TASSIS_HTTPS_ADDR nor an SMTP listener is set. A proxy has its own.'
      return output.joinParagraphs(
        output.formatPage(page, 'host for source not_after', cells, none),
        ...new Set(problems),
      )
    },
  )
  add('retry', 'order failed certificates now, after their cause was mended').answer(
    async ({ api }) => api.operator.retryCertificates(),
    ({ data: { hosts } }) =>
      hosts.length === 0
        ? 'No order has failed.'
        : `The service orders again: ${hosts.join(', ')}. See \`tassis certificates list\` in a minute.`,
  )
}
