/** @module The last step: who gets it, when, and the confirmation by typing their number. */
import { Button, Group, List, Radio, Stack, Text, TextInput } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { ContactListRecipient, Newsletter } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { ActionButton } from '../../parts/buttons.tsx'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { bindText } from '../../parts/form.tsx'
import { formatCount, formatTime } from '../../parts/format.ts'
import { ErrorState, Facts } from '../../parts/page.tsx'
import { Notice } from '../../parts/status.tsx'
import { parseLocalTime } from '../../parts/zone.ts'
import { describeLeftOut } from './states.ts'

export function SendStep({ draft }: { readonly draft: Newsletter }) {
  const count = useData(read.contactLists.countRecipients(draft.list_id), { staleTime: 0, retry: false })
  const list = useData(read.contactLists.get(draft.list_id))
  const [isLater, setIsLater] = useState(false)
  const [time, setTime] = useState('')
  const [isConfirming, setIsConfirming] = useState(false)
  const navigate = useNavigate()
  const reason = useAllowed('developer')
  const at = isLater ? parseLocalTime(time) : undefined
  const isTimeMissing = at !== undefined && Number.isNaN(at.getTime())
  const hasContent = draft.html_body !== null || draft.text_body !== null || draft.template_id !== null
  const { data } = count
  return (
    <Stack gap="md" maw={720}>
      <Facts
        facts={[
          ['Subject', draft.subject],
          ['Sender', draft.from_address],
          ['List', list.data?.name],
        ]}
      />
      {!data && count.error && <ErrorState error={count.error} onRetry={() => count.refetch()} />}
      {!data && !count.error && <Text role="status">The recipients are being counted.</Text>}
      {data && <Recipients count={data} isCounting={count.isFetching} onRecount={() => void count.refetch()} />}
      {!hasContent && <Notice tone="warning">It has no content yet. Write it in the step Content.</Notice>}
      <Radio.Group label="When" value={isLater ? 'later' : 'now'} onChange={(value) => setIsLater(value === 'later')}>
        <Group mt={4}>
          <Radio value="now" label="Now" />
          <Radio value="later" label="Later" />
        </Group>
      </Radio.Group>
      {isLater && (
        <TextInput
          type="datetime-local"
          label="Begin at"
          description="In the time zone of the account menu. The recipients are those of now; whoever joins later does not get it."
          {...bindText(time, setTime)}
          required
          maw={300}
        />
      )}
      {data && (
        <Group>
          <ActionButton
            reason={
              reason ??
              (data.recipients === 0
                ? 'No contact of this list can get it now.'
                : hasContent
                  ? isTimeMissing
                    ? 'Choose when it begins.'
                    : undefined
                  : 'It has no content yet.')
            }
            onClick={() => setIsConfirming(true)}
          >
            {isLater ? 'Schedule' : 'Send'} to {formatCount(data.recipients, 'recipient')}
          </ActionButton>
        </Group>
      )}
      {isConfirming && data && (
        <ConfirmDialog
          title={at === undefined ? 'Send this broadcast?' : 'Schedule this broadcast?'}
          confirm={at === undefined ? 'Send it' : 'Schedule it'}
          typed={String(data.recipients)}
          // Also after an error: more contacts may have joined the list.
          refreshes={['broadcasts', 'newsletters', ['contactLists', 'countRecipients']]}
          run={() =>
            api.newsletters.send(draft.id, { max_recipients: data.recipients, send_at: at?.toISOString() ?? null })
          }
          onDone={({ data: { operation_id: id } }) =>
            navigate({ to: '/broadcasts/$id', params: { id }, replace: true })
          }
          onClose={() => setIsConfirming(false)}
        >
          <Text>
            It goes to {formatCount(data.recipients, 'recipient')} of the list <bdi>{list.data?.name}</bdi>
            {at === undefined ? ' now' : `, from ${formatTime(at.toISOString(), true)} on`}. What was sent cannot be
            taken back.
          </Text>
        </ConfirmDialog>
      )}
    </Stack>
  )
}

interface RecipientsProps {
  readonly count: ContactListRecipient
  readonly isCounting: boolean
  onRecount(): void
}

function Recipients({ count, isCounting, onRecount }: RecipientsProps) {
  const leftOut = describeLeftOut(count)
  return (
    <Stack gap="xs" align="flex-start">
      <Text fw={600} role="status">
        {formatCount(count.recipients, 'recipient')} of {count.contacts.toLocaleString()} contacts get it.
      </Text>
      {leftOut.length > 0 && (
        <>
          <Text size="sm">Left out are:</Text>
          <List size="sm">
            {leftOut.map((sentence) => (
              <List.Item key={sentence}>{sentence}</List.Item>
            ))}
          </List>
        </>
      )}
      <Button size="xs" variant="default" loading={isCounting} onClick={onRecount}>
        Count again
      </Button>
    </Stack>
  )
}
