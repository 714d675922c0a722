/** @module The list of the inbox. */

import { VisuallyHidden } from '@mantine/core'
import type { CapturedEmailSummary } from '#client/api.ts'
import { focusLastOpened, ROW_MARK } from '../../parts/keyboard.tsx'
import { TextLink } from '../../parts/links.tsx'
import { Time } from '../../parts/time.tsx'

interface InboxListProps {
  readonly rows: readonly CapturedEmailSummary[]
  readonly openId: string | undefined
}

export function InboxList({ rows, openId }: InboxListProps) {
  return (
    <ul ref={focusLastOpened} className="inbox" aria-label="Captured mail">
      {rows.map((row) => (
        <InboxItem key={row.id} row={row} isOpen={row.id === openId} />
      ))}
    </ul>
  )
}

function InboxItem({ row, isOpen }: { readonly row: CapturedEmailSummary; readonly isOpen: boolean }) {
  const [first, ...others] = row.rcpt_to
  return (
    <li
      {...ROW_MARK}
      data-captured={row.id}
      data-subject={row.subject}
      data-unread={!row.read}
      data-open={isOpen || undefined}
    >
      <TextLink
        to="/sandbox/$id"
        params={{ id: row.id }}
        // The tab of the message is not kept, the filters of the list are.
        search={({ tab: _, ...before }) => before}
        className="inbox-link"
        c="inherit"
        underline="never"
        {...(isOpen && { 'aria-current': 'true' })}
      >
        <span className="inbox-line">
          <span className="inbox-recipient" title={row.rcpt_to.join(', ')}>
            {!row.read && (
              <>
                <span className="inbox-dot" aria-hidden="true" />
                <VisuallyHidden>Unread: </VisuallyHidden>
              </>
            )}
            <bdi>{first ?? '(no recipient)'}</bdi>
            {others.length > 0 && ` +${others.length}`}
          </span>
          <span className="inbox-time">
            <Time iso={row.received_at} />
          </span>
        </span>
        <span className="inbox-subject" title={row.subject}>
          <bdi>{row.subject || '(no subject)'}</bdi>
        </span>
        <span className="inbox-sender" title={row.from}>
          from <bdi>{row.from || '(no sender)'}</bdi>
        </span>
      </TextLink>
    </li>
  )
}
