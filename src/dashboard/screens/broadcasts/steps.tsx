/**
 * @module Steps of a broadcast. The second: sender, subject and content; what was typed stays until it is stored as a draft.
 * The last: who gets it, when, and the confirmation by typing their number.
 */
import { Button, Code, Group, List, Radio, Stack, Text, TextInput } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { ContactListRecipient, CreateNewsletterRequest, Newsletter, UpdateNewsletterRequest } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useAll, useData } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { ActionButton } from '../../parts/buttons.tsx'
import { ConfirmDialog, LeaveGuard } from '../../parts/dialog.tsx'
import type { Field, Values } from '../../parts/fields.ts'
import { bindText, Form, FormError } from '../../parts/form.tsx'
import { formatCount, formatTime, toTemplateLabel } from '../../parts/format.ts'
import { ErrorState, Facts } from '../../parts/page.tsx'
import { Notice } from '../../parts/status.tsx'
import { useForm } from '../../parts/use-form.tsx'
import { parseLocalTime } from '../../parts/zone.ts'
import { describeLeftOut } from './states.ts'

interface ContentFormProps {
  readonly listId: string
  readonly draft?: Newsletter
  /** @param goesOn whether the next step was asked for */
  onSaved(draft: Newsletter, goesOn: boolean): void
}

/** Of the content: a template supplies both bodies, own bodies need none. */
type Source = 'own' | 'template'

type Content = UpdateNewsletterRequest & { readonly source?: Source }

const toSource = (draft: Newsletter | undefined): Source => (draft?.template_id ? 'template' : 'own')

const toBody = ({ source, ...body }: Content): UpdateNewsletterRequest => ({
  ...(source === 'own' && { template_id: null }),
  ...(source === 'template' && { html_body: null, text_body: null }),
  ...body,
})

export function ContentForm({ listId, draft, onSaved }: ContentFormProps) {
  const reason = useAllowed('developer')
  const { fields, toSubject } = useContentFields()
  const { values, show, work, submit, isUnchanged, ...form } = useForm({
    fields,
    stored: draft,
    // A template proposes its subject.
    initial: (typed) => ({ subject: toSubject(typed['template_id']), ...draft, source: toSource(draft) }),
    reason,
    refreshes: ['newsletters'],
    run: (content: Content) =>
      draft
        ? api.newsletters.update(draft.id, toBody(content))
        : api.newsletters.create({ ...toBody(content), list_id: listId } as CreateNewsletterRequest),
  })
  const save = (goesOn: boolean) => {
    if (draft && isUnchanged) onSaved(draft, goesOn)
    else submit(({ data }) => onSaved(data, goesOn))
  }
  return (
    <Form onSubmit={() => save(true)} noValidate={false} error={work.error} maw={860}>
      {show(form.fields)}
      {values['source'] === 'own' && (
        <Text size="sm">
          Most laws require a visible link to unsubscribe: <Code>{'{{ unsubscribe_url }}'}</Code>. Each email has the
          headers for it in any case.
        </Text>
      )}
      <FormError error={work.error} fields={form.names} />
      <Group>
        <ActionButton reason={reason} loading={work.isPending} onClick={() => save(true)} label="Save and continue" />
        <ActionButton reason={reason} variant="default" loading={work.isPending} onClick={() => save(false)}>
          Save
        </ActionButton>
      </Group>
      <div role="status">{draft && isUnchanged && <Text size="sm">The draft is saved.</Text>}</div>
      <LeaveGuard
        text="What you changed since the draft was saved is lost."
        isDirty={() => !isUnchanged}
        isQueryGuarded
      />
    </Form>
  )
}

type ContentField = Field<keyof Content & string>

function useContentFields() {
  const { data: domains = [] } = useData(read.domains.list({ per_page: 100 }))
  const { data: templates = [], isPending } = useAll(read.templates.list({ per_page: 100 }))
  const verified = domains.filter(({ status }) => status === 'verified').map(({ domain }) => domain)
  const more = verified.length > 5 ? ` or ${verified.length - 5} more` : ''
  const head: readonly ContentField[] = [
    {
      name: 'from_address',
      label: 'Sender',
      kind: 'code',
      hint:
        verified.length > 0
          ? `An address at ${verified.slice(0, 5).join(', ')}${more}.`
          : 'None of your domains is verified, so the emails would only be captured.',
      placeholder: `Ada <news@${verified[0] ?? 'example.com'}>`,
      isRequired: true,
    },
    {
      name: 'subject',
      label: 'Subject',
      hint: "Variables work here and in the content: {{ contact.first_name|default('there', true) }}.",
      isRequired: true,
    },
    { name: 'reply_to', label: 'Replies go to', kind: 'code', hint: 'Empty: to the sender.' },
    {
      name: 'source',
      label: 'Content',
      kind: 'radio',
      options: [
        { value: 'own', label: 'Written here' },
        { value: 'template', label: 'From a template' },
      ],
    },
  ]
  const template: ContentField = {
    name: 'template_id',
    label: 'Template',
    kind: 'choice',
    hint: 'As it is when the broadcast is sent.',
    options: [
      { value: '', label: !isPending && templates.length === 0 ? 'There is no template yet' : 'Choose a template' },
      ...templates.map((one) => ({ value: one.id, label: toTemplateLabel(one) })),
    ],
  }
  return {
    fields: ({ source }: Values) => [...head, ...(source === 'template' ? [template] : BODIES)],
    toSubject: (id: unknown) => templates.find((one) => one.id === id)?.subject,
  }
}

/** Errors of templates name the part. */
const BODIES: readonly ContentField[] = [
  { name: 'html_body', errorName: 'html', label: 'HTML', kind: 'source', rows: [8, 30] },
  { name: 'text_body', errorName: 'text', label: 'Text', kind: 'source', rows: [5, 30] },
]

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
