/** @module JSON shape of link statistics. */
import { type Static, Type } from '@sinclair/typebox'
import { isoTime } from '#platform/http/envelope.ts'
import { extra, Timestamp } from '#platform/http/schemas.ts'
import type { LinkStatistics } from './engage.ts'

export const LinkRecord = Type.Object({
  url: Type.String({ description: 'Where the link leads, as the email has it.' }),
  clicks: Type.Integer({ description: 'Clicks by people, over all recipients.' }),
  unique_clicks: Type.Integer({ description: 'Distinct days (UTC) on which it was clicked.' }),
  machine_clicks: extra(
    Type.Integer({
      description:
        'How often scanners and prefetchers followed it; counted nowhere else. Links that only they followed are omitted.',
    }),
  ),
  last_clicked_at: Timestamp({ description: 'The last of these clicks.' }),
})
export type LinkRecord = Static<typeof LinkRecord>

export const linkWire = ({ url, clicks, days, machineClicks, lastClickedAt }: LinkStatistics): LinkRecord => ({
  url,
  clicks,
  unique_clicks: days,
  machine_clicks: machineClicks,
  last_clicked_at: isoTime(lastClickedAt),
})
