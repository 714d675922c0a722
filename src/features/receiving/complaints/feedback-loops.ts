/**
 * @module Finds the provider whose feedback loop sent a report, proven by SPF or DKIM. Knows the senders of public
 * loops and those that the operator adds. Pure; never reads the report itself.
 */
import type { ReceivedMail } from '#features/receiving/received/message.ts'
import type { Config } from '#platform/config.ts'

/**
 * Senders of feedback loops by provider. Each is a whole address, because some of the domains also host mailboxes for
 * the public, whose mail passes SPF and DKIM too.
 *
 * Sources: Yahoo, https://senders.yahooinc.com/complaint-feedback-loop/ (envelope and From are the same); BlueTie,
 * http://feedback.bluetie.com/faq.php; Microsoft (JMRP), from programs that read its reports, such as
 * https://github.com/zone-eu/zone-mta; the others, most of them run by Validity for the provider, from the settings of
 * https://github.com/AbuseIO/parser-fbl.
 */
const LOOP_SENDERS: Readonly<Record<string, readonly string[]>> = {
  Yahoo: ['feedback@arf.mail.yahoo.com'],
  Microsoft: ['staff@hotmail.com'],
  AOL: ['scomp@aol.net'],
  BlueTie: [
    'feedback@feedback.bluetie.com',
    'feedbackloop@feedback.bluetie.com',
    'feedbackloop@bluetiefbl.senderscore.net',
  ],
  Comcast: ['feedbackloop@comcastfbl.senderscore.net'],
  Cox: ['feedbackloop@fbl.cox.net', 'feedbackloop@coxfbl.senderscore.net'],
  Fastmail: ['feedbackloop@fbl.fastmail.com'],
  'Italia Online': ['feedbackloop@italianonlinefbl.senderscore.net'],
  Locaweb: ['feedbackloop@localwebfbl.senderscore.net'],
  'Mail.ru': ['feedbackloop@mailru.senderscore.net'],
  OpenSRS: ['feedbackloop@fbl.hostedemail.com', 'feedbackloop@fbl-opensrs.app.returnpath.net'],
  Rackspace: ['feedbackloop@fbl.apps.rackspace.com', 'feedbackloop@rackspacefbl.senderscore.net'],
  Spectrum: ['feedbackloop@feedback.postmaster.rr.com'],
  Synacor: ['feedbackloop@fbl.synacor.com', 'feedbackloop@synacorfbl.senderscore.net'],
  Telenor: ['feedbackloop@telnorfbl.senderscore.net'],
  Terra: ['feedbackloop@terrafbl.senderscore.net'],
  'USA.NET': ['feedbackloop@fbl.usa.net', 'feedbackloop@usanetfbl.senderscore.net'],
  XS4ALL: ['feedbackloop@fbl.xs4all.net', 'feedbackloop@xs4allfbl.senderscore.net'],
  Yandex: ['feedbackloop@yandexfbl.senderscore.net'],
  Zoho: ['feedbackloop@fbl.zoho.com'],
}

const PROVIDERS_BY_SENDER = new Map(
  Object.entries(LOOP_SENDERS).flatMap(([provider, senders]) => senders.map((sender) => [sender, provider] as const)),
)

/**
 * The provider whose feedback loop sent a message; undefined: no known loop, or no proof. SPF proves the envelope
 * sender, an aligned DKIM signature proves From.
 */
export function findFeedbackLoop(
  { feedbackLoops }: Pick<Config, 'feedbackLoops'>,
  { envelope, message, authentication }: Pick<ReceivedMail, 'envelope' | 'message' | 'authentication'>,
): string | undefined {
  const { spf, dkim } = authentication.details
  const provenAddresses: string[] = []
  if (spf.result === 'pass' && spf.identity === 'mailfrom') provenAddresses.push(envelope.mailFrom)
  const [from, ...others] = message?.fromAddresses ?? []
  if (from !== undefined && others.length === 0 && dkim.some(({ result, aligned }) => result === 'pass' && aligned))
    provenAddresses.push(from)
  return provenAddresses
    .map((address) => findProvider(feedbackLoops, address.toLowerCase()))
    .find((provider) => provider !== undefined)
}

function findProvider(extraEntries: readonly string[], address: string): string | undefined {
  const known = PROVIDERS_BY_SENDER.get(address)
  if (known !== undefined) return known
  const domain = address.slice(address.lastIndexOf('@') + 1)
  return extraEntries.find((entry) => entry === address || entry === domain)
}
