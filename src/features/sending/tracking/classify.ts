/**
 * @module Decides from a request whether a person or a machine loaded a pixel or followed a link. Scanners follow every
 * link of a message, image proxies load its images, and prefetchers load content that the reader has not requested.
 *
 * Cannot detect a scanner that imitates a browser, nor Apple's Mail Privacy Protection if it sends more than
 * `Mozilla/5.0`. Gmail and Yahoo load images through proxies when somebody reads; clients expect proxies to be filtered
 * out, so such opens count as machine.
 */
import { isbot } from 'isbot'

/** isbot takes these for machines, because they do not look like browsers. But people read mail with them. */
const MAIL_PROGRAMS =
  /\b(?:airmail|bluemail|claws mail|delta ?chat|edison mail|em ?client|evolution|fairemail|foxmail|geary|k-9 mail|kmail|lotus-notes|mailbird|mailmate|mailspring|outlook-android|postbox|sparkdesktop|superhuman|sylpheed|trojita|yahoomobilemail|zimbradesktop)\b/i

/**
 * Scanners, gateways and image proxies, and the Edge of 2015 that Gmail claims to be when it prefetches images. isbot
 * knows many of them, but some only in other spellings, and some not inside a browser's user agent.
 */
const MAIL_MACHINES =
  /googleimageproxy|ggpht\.com|edge\/12\.246 (?:mozilla\/5\.0|gmail-content-sampling)|yahoomailproxy|seznamemailproxy|imageproxy|imageresizer|bingpreview|safelinks|exchange online protection|mailscanner|barracuda|proofpoint|ppspider|mimecast|symantec|messagelabs|brightmail|cloudmark|trend ?micro|ironport|cisco secure email|fireeye|trellix|mcafee|forcepoint|websense|sophos|fortinet|fortiguard|fortimail|bitdefender|avanan|check ?point|vade ?secure|hornetsecurity|spamtitan|zscaler|palo ?alto ?networks|kaspersky|clamav|libraesva|retarus|nospamproxy|trustwave|darktrace|ironscales|perception-point|urlscan|virustotal|phishtank|feedfetcher|gtmetrix|puppeteer|powershell/i

/** Headers that browsers and mail programs send when they prefetch. */
const PREFETCH_HEADERS = ['sec-purpose', 'purpose', 'x-purpose', 'x-moz'] as const
const PREFETCH = /prefetch|prerender|preview|instant/i

export type Visitor = 'human' | 'machine'

/** Who made a request. */
export function classifyVisitor(headers: Headers): Visitor {
  if (PREFETCH_HEADERS.some((name) => PREFETCH.test(headers.get(name) ?? ''))) return 'machine'
  const userAgent = (headers.get('user-agent') ?? '').slice(0, MAX_USER_AGENT_LENGTH).trim()
  if (userAgent === '' || MAIL_MACHINES.test(userAgent)) return 'machine'
  if (MAIL_PROGRAMS.test(userAgent)) return 'human'
  return isbot(userAgent) ? 'machine' : 'human'
}

/** Longer user agents are truncated before they are classified or stored. */
export const MAX_USER_AGENT_LENGTH = 512
