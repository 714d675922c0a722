/** @module The second step: sender, subject and content. What was typed stays until it is stored as a draft. */
import { Code, Group, NativeSelect, Radio, Text, Textarea, TextInput } from '@mantine/core'
import { useRef, useState } from 'react'
import type { Newsletter, UpdateNewsletterRequest } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { useAll, useData } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import {
  ActionButton,
  bindText,
  CODE_INPUT,
  Form,
  FormError,
  findFieldError,
  LeaveGuard,
  type TextField,
} from '../../parts/form.tsx'
import { useSaveDraft } from './queries.ts'

interface ContentFormProps {
  readonly listId: string
  readonly draft?: Newsletter
  /** @param goesOn whether the next step was asked for */
  onSaved(draft: Newsletter, goesOn: boolean): void
}

interface Values {
  readonly from_address: string
  readonly subject: string
  readonly reply_to: string
  readonly html_body: string
  readonly text_body: string
  readonly template_id: string
}

const toValues = (draft: Newsletter | undefined): Values => ({
  from_address: draft?.from_address ?? '',
  subject: draft?.subject ?? '',
  reply_to: draft?.reply_to ?? '',
  html_body: draft?.html_body ?? '',
  text_body: draft?.text_body ?? '',
  template_id: draft?.template_id ?? '',
})

type Source = 'own' | 'template'

/** A template supplies both bodies; own bodies need none. */
const toFields = (values: Values, source: Source): UpdateNewsletterRequest => ({
  from_address: values.from_address.trim(),
  subject: values.subject,
  reply_to: values.reply_to.trim() || null,
  html_body: source === 'own' ? values.html_body || null : null,
  text_body: source === 'own' ? values.text_body || null : null,
  template_id: source === 'template' ? values.template_id || null : null,
})

function useContent({ listId, draft, onSaved }: ContentFormProps) {
  const [values, setValues] = useState(() => toValues(draft))
  const [source, setSource] = useState<Source>(draft?.template_id ? 'template' : 'own')
  const [isDirty, setIsDirty] = useState(false)
  const isLeaving = useRef(false)
  const save = useSaveDraft(draft?.id)
  const reason = useAllowed('developer')
  const set = (next: Partial<Values>) => {
    setValues((before) => ({ ...before, ...next }))
    setIsDirty(true)
  }
  const store = (goesOn: boolean) => {
    if (reason !== undefined || save.isPending) return
    const body = { ...(draft ? {} : { list_id: listId }), ...toFields(values, source) }
    save.mutate(body, {
      onSuccess: ({ data: saved }) => {
        isLeaving.current = true
        setIsDirty(false)
        onSaved(saved, goesOn)
        // Only this navigation is meant.
        setTimeout(() => {
          isLeaving.current = false
        })
      },
    })
  }
  const { error } = save
  const field = (name: keyof Values) => ({
    ...bindText(values[name], (value) => set({ [name]: value })),
    readOnly: reason !== undefined,
    error: findFieldError(error, name) ?? findPartError(error, name),
  })
  const isShownInField = (Object.keys(values) as (keyof Values)[]).some((name) => field(name).error !== undefined)
  const choose = (next: Source) => {
    setSource(next)
    setIsDirty(true)
  }
  return {
    values,
    set,
    source,
    choose,
    field,
    store,
    reason,
    isDirty,
    isLeaving,
    isSaving: save.isPending,
    /** The error that no field shows. */
    error: isShownInField ? undefined : error,
  }
}

export function ContentForm(props: ContentFormProps) {
  const { values, set, source, choose, field, store, reason, isDirty, isLeaving, isSaving, error } = useContent(props)
  return (
    <Form onSubmit={() => store(true)} maw={860}>
      <SenderField {...field('from_address')} />
      <TextInput
        {...field('subject')}
        label="Subject"
        description="Variables work here and in the content: {{ contact.first_name|default('there', true) }}."
        required
        maxLength={998}
        dir="auto"
        autoComplete="off"
      />
      <TextInput {...field('reply_to')} label="Replies go to" description="Empty: to the sender." autoComplete="off" />
      <Radio.Group label="Content" value={source} onChange={(value) => choose(value as Source)}>
        <Group mt={4}>
          <Radio value="own" label="Written here" disabled={reason !== undefined} />
          <Radio value="template" label="From a template" disabled={reason !== undefined} />
        </Group>
      </Radio.Group>
      {source === 'template' ? (
        <TemplateField
          value={values.template_id}
          error={field('template_id').error}
          isReadOnly={reason !== undefined}
          onChoose={(id, subject) => set({ template_id: id, ...(values.subject === '' && { subject }) })}
        />
      ) : (
        <Bodies html={field('html_body')} text={field('text_body')} />
      )}
      <FormError error={error} />
      <Group>
        <ActionButton reason={reason} loading={isSaving} onClick={() => store(true)}>
          Save and continue
        </ActionButton>
        <ActionButton reason={reason} variant="default" loading={isSaving} onClick={() => store(false)}>
          Save the draft
        </ActionButton>
      </Group>
      <div role="status">{props.draft && !isDirty && <Text size="sm">The draft is saved.</Text>}</div>
      <LeaveGuard
        text="What you changed since the draft was saved is lost."
        isDirty={() => isDirty && !isLeaving.current}
        isQueryGuarded
      />
    </Form>
  )
}

const PARTS: Readonly<Record<string, string>> = { html_body: 'html', text_body: 'text' }

/** Template errors name the part instead of the field. */
const findPartError = (error: unknown, name: string): string | undefined => {
  const part = PARTS[name]
  return part === undefined ? undefined : findFieldError(error, part)
}

type FieldProps = TextField & { readonly readOnly: boolean }

function SenderField(props: FieldProps) {
  const { data = [] } = useData(read.domains.list({ per_page: 100 }))
  const verified = data.filter(({ status }) => status === 'verified').map(({ domain }) => domain)
  return (
    <TextInput
      {...props}
      label="Sender"
      description={
        verified.length > 0
          ? `An address at ${verified.slice(0, 5).join(', ')}${verified.length > 5 ? ` or ${verified.length - 5} more` : ''}.`
          : 'None of your domains is verified, so the emails would only be captured.'
      }
      placeholder={`Ada <news@${verified[0] ?? 'example.com'}>`}
      required
      {...CODE_INPUT}
    />
  )
}

interface TemplateFieldProps {
  readonly value: string
  readonly error: string | undefined
  readonly isReadOnly: boolean
  onChoose(id: string, subject: string): void
}

function TemplateField({ value, error, isReadOnly, onChoose }: TemplateFieldProps) {
  const { data = [], isPending } = useAll(read.templates.list({ per_page: 100 }))
  return (
    <NativeSelect
      label="Template"
      description="As it is when the broadcast is sent."
      value={value}
      disabled={isReadOnly}
      error={error}
      onChange={(event) => {
        const { value: id } = event.currentTarget
        onChoose(id, data.find((template) => template.id === id)?.subject ?? '')
      }}
      data={[
        { value: '', label: !isPending && data.length === 0 ? 'There is no template yet' : 'Choose a template' },
        ...data.map(({ id, name }) => ({ value: id, label: name })),
      ]}
    />
  )
}

const MONOSPACE = { input: { fontFamily: 'var(--mantine-font-family-monospace)' } }

const Bodies = ({ html, text }: { readonly html: FieldProps; readonly text: FieldProps }) => (
  <>
    <Textarea
      {...html}
      label="HTML"
      autosize
      minRows={8}
      maxRows={30}
      spellCheck={false}
      dir="auto"
      styles={MONOSPACE}
    />
    <Textarea {...text} label="Text" autosize minRows={5} maxRows={30} dir="auto" styles={MONOSPACE} />
    <Text size="sm">
      Most laws require a visible link to unsubscribe: <Code>{'{{ unsubscribe_url }}'}</Code>. Each email has the
      headers for it in any case.
    </Text>
  </>
)
