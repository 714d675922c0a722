/** @module The attempts to deliver an email, with the dialogue of each; loaded when asked for. */
import { Button, Code, Paper, Stack, Text } from '@mantine/core'
import { useInfiniteQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { EmailAttempt } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { ErrorState, Facts, LoadingState } from '../../parts/page.tsx'
import { EventBadge } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import { formatDialogue, formatTimings, RESPONSIBLE_LABELS } from './format.ts'

const PAGE_SIZE = 25

export function DeliveryLog({ id }: { readonly id: string }) {
  const [isShown, setIsShown] = useState(false)
  return isShown ? (
    <Attempts id={id} />
  ) : (
    <Stack align="flex-start">
      <Button variant="default" onClick={() => setIsShown(true)}>
        Show attempts
      </Button>
    </Stack>
  )
}

const readPage = (id: string, page: number) => read.emails.listAttempts(id, { page, per_page: PAGE_SIZE })

function Attempts({ id }: { readonly id: string }) {
  const query = useInfiniteQuery({
    queryKey: [...readPage(id, 1).queryKey, 'all'],
    queryFn: ({ pageParam, signal }) => readPage(id, pageParam).queryFn({ signal }),
    initialPageParam: 1,
    getNextPageParam: ({ pagination: { page, total_pages: last } }) => (page < last ? page + 1 : undefined),
  })
  if (query.error) return <ErrorState error={query.error} onRetry={() => query.refetch()} />
  if (!query.data) return <LoadingState />
  const [first] = query.data.pages
  return (
    <Stack gap="sm" align="stretch">
      {first?.data.length === 0 && <Text size="sm">No attempt is stored.</Text>}
      {query.data.pages
        .flatMap(({ data }) => data)
        .map((attempt) => (
          <AttemptEntry key={`${attempt.recipient} ${attempt.attempt} ${attempt.ended_at}`} attempt={attempt} />
        ))}
      {query.hasNextPage && (
        <Stack align="flex-start">
          <Button variant="default" size="xs" loading={query.isFetching} onClick={() => query.fetchNextPage()}>
            Show more of {first?.pagination.total} attempts
          </Button>
        </Stack>
      )}
    </Stack>
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
            ['Ended', <Time key="ended" iso={attempt.ended_at} hasSeconds />],
            ['Server', host && `${host} [${address}]`],
            ['Sent from', attempt.source],
            ['TLS', attempt.tls],
            ['Reply', reply],
            ['Reason', reason === reply ? null : reason],
            ['Category', attempt.category],
            ['Rule', attempt.rule],
            ['Timings', attempt.timings && formatTimings(attempt.timings)],
            ['Next attempt', attempt.next_attempt_at && <Time iso={attempt.next_attempt_at} hasSeconds />],
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
