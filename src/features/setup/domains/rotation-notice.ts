/**
 * @module The mail to owners whose domains got new DKIM keys by automatic rotation: which records to publish. One mail
 * lists all domains of an account. There is no reminder, because the present keys sign until the records are there.
 */

import type { App } from '#features/core/app/app.ts'
import { type OwnerNotice, scheduleNotice } from '#features/core/notices/notices.ts'
import type { Tx } from '#platform/db/commit.ts'
import { hours } from '#platform/units.ts'
import type { DnsRecord } from './dns-records.ts'
import { type Domain, findDomainById, listDnsRecords } from './domains.ts'

const KIND = 'dkim_rotation'
/** So that one mail has all domains of an account whose keys are equally old: each is checked once in this time. */
const DELAY_MS = hours(6)
/** Maximum number of domains whose records are in one mail; the rest are counted. */
const MAX_NAMED = 20

/** Schedules the mail about a domain's new keys. */
export const scheduleRotationNotice = (app: App, tx: Tx, { id: topic, accountId }: Domain): void =>
  scheduleNotice(app, tx, { accountId, kind: KIND, topic, dueAt: app.clock.now() + DELAY_MS })

export const ROTATION_NOTICE: OwnerNotice = {
  kind: KIND,
  intervalMs: 0,
  aheadMs: DELAY_MS,
  compose({ config, db }, { name }, notices) {
    const domains = notices.flatMap(({ topic }) => {
      const domain = findDomainById(db, topic)
      // Without next keys, the new ones sign already.
      return domain?.nextDkim ? [domain] : []
    })
    const [first, ...others] = domains
    if (!first) return undefined
    const more = domains.length - MAX_NAMED
    return {
      subject: `New DKIM records to publish for ${others.length === 0 ? first.domain : `${domains.length} domains`}`,
      text: [
        `This is about domains of the account ${name}.`,
        'The DKIM keys of the following domains have reached the age at which this service replaces them. Please publish these TXT records in DNS, beside the present ones:',
        ...domains.slice(0, MAX_NAMED).map((domain) => formatRecords(domain, listNextRecords(config, domain))),
        ...(more > 0 ? [`And those of ${more} more domains.`] : []),
        'There is no deadline, and nothing breaks without them: mail is signed with the present keys until a check finds the new records. The service checks automatically, every few hours; POST /v1/domains/{id}/verify checks immediately.',
        'Leave the present records in DNS for seven days after that, for mail that is still on its way. GET /v1/domains/{id} (dns_records, former_dkim_selectors) and `tassis domains records` on the server show all records, and when the former ones may be removed.',
      ].join('\n\n'),
    }
  },
}

/** What to publish so that the next keys can sign. A domain that does not sign twice needs no second record. */
function listNextRecords(config: App['config'], domain: Domain): DnsRecord[] {
  const { dkim_next: rsa, dkim_ed25519_next: ed25519 } = listDnsRecords(config, domain)
  return [rsa, domain.isEd25519Verified ? ed25519 : undefined].filter((record) => record !== undefined)
}

const formatRecords = ({ domain }: Domain, records: readonly DnsRecord[]): string =>
  [domain, ...records.map(({ host, value }) => `\n  Name:  ${host}\n  Value: ${value}`)].join('\n')
