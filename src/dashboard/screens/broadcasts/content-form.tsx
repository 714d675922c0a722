/** @module The second step: sender, subject and content. What was typed stays until it is stored as a draft. */
import { Code, Group, Text } from '@mantine/core'
import type { CreateNewsletterRequest, Newsletter, UpdateNewsletterRequest } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useAll, useData } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { ActionButton } from '../../parts/buttons.tsx'
import { LeaveGuard } from '../../parts/dialog.tsx'
import type { Field, Values } from '../../parts/fields.ts'
import { Form, FormError } from '../../parts/form.tsx'
import { useForm } from '../../parts/use-form.tsx'

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
        <ActionButton reason={reason} loading={work.isPending} onClick={() => save(true)}>
          Save and continue
        </ActionButton>
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
      ...templates.map(({ id, name }) => ({ value: id, label: name })),
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
