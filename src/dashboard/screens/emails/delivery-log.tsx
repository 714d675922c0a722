/** @module The attempts to deliver an email, with the dialogue of each; loaded when asked for. */
import { Button, Code, Paper, Stack, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { EmailAttempt } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { Facts, QueryView } from '../../parts/page.tsx'
import { EventBadge } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import { formatDialogue, formatTimings, RESPONSIBLE_LABELS } from './format.ts'

const PAGE_SIZE = 25

export function DeliveryLog({ id }: { readonly id: string }) {
  const [pages, setPages] = useState(0)
  if (pages === 0)
    return (
      <Stack align="flex-start">
        <Button variant="default" onClick={() => setPages(1)}>
          Show attempts
        </Button>
      </Stack>
    )
  return (
    <Stack gap="sm">
      {Array.from({ length: pages }, (_, index) => (
        <AttemptPage
          // biome-ignore lint/suspicious/noArrayIndexKey: the number of a page is its identity
          key={index}
          id={id}
          page={index + 1}
          onMore={index + 1 === pages ? () => setPages(pages + 1) : undefined}
        />
      ))}
    </Stack>
  )
}

interface AttemptPageProps {
  readonly id: string
  readonly page: number
  /** Shows the next page; undefined when it is shown. */
  readonly onMore: (() => void) | undefined
}

function AttemptPage({ id, page, onMore }: AttemptPageProps) {
  const query = useQuery(read.emails.listAttempts(id, { page, per_page: PAGE_SIZE }))
  return (
    <QueryView query={query}>
      {({ data, pagination }) => (
        <>
          {data.length === 0 && page === 1 && <Text size="sm">No attempt is stored.</Text>}
          {data.map((attempt) => (
            <AttemptEntry key={`${attempt.recipient} ${attempt.attempt} ${attempt.ended_at}`} attempt={attempt} />
          ))}
          {onMore && page < pagination.total_pages && (
            <Stack align="flex-start">
              <Button variant="default" size="xs" onClick={onMore}>
                Show more of {pagination.total} attempts
              </Button>
            </Stack>
          )}
        </>
      )}
    </QueryView>
  )
}

function AttemptEntry({ attempt }: { readonly attempt: EmailAttempt }) {
  const { host, address, dialogue, smtp_response: reply, reason } = attempt
  const dialogueText = dialogue && formatDialogue(dialogue)
  return (
    <Paper withBorder p="sm" data-attempt={attempt.attempt}>
      <Stack gap="xs">
        <EventBadge type={attempt.outcome} />
        <Facts
          facts={[
            ['Recipient', attempt.recipient],
            ['Attempt', String(attempt.attempt)],
            ['Ended', <Time key="ended" iso={attempt.ended_at} isExact />],
            ['Server', host && `${host} [${address}]`],
            ['Sent from', attempt.source],
            ['TLS', attempt.tls],
            ['Reply', reply],
            ['Reason', reason === reply ? null : reason],
            ['Category', attempt.category],
            ['Rule', attempt.rule],
            ['Timings', attempt.timings && formatTimings(attempt.timings)],
            ['Next attempt', attempt.next_attempt_at && <Time iso={attempt.next_attempt_at} isExact />],
            ['Who must act', RESPONSIBLE_LABELS[attempt.who_must_act]],
            ['What to do', attempt.advice],
          ]}
        />
        {dialogueText && (
          <details>
            <summary>SMTP dialogue, in milliseconds</summary>
            <Code block tabIndex={0} style={{ whiteSpace: 'pre-wrap' }}>
              {dialogueText}
            </Code>
          </details>
        )}
      </Stack>
    </Paper>
  )
}
