/** @module One sign-up form: its settings, a preview, and the code that embeds it in another page. */
import {
  Accordion,
  Anchor,
  Button,
  Checkbox,
  Group,
  NativeSelect,
  Paper,
  SimpleGrid,
  Stack,
  Switch,
  Text,
  Textarea,
  TextInput,
} from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import type { SignupForm, UpdateSignupFormRequest } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData, useStore } from '../api/data.ts'
import { useAllowed } from '../api/session.tsx'
import { Copy } from '../parts/copy.tsx'
import {
  bindChecked,
  bindText,
  DeleteButton,
  Form,
  FormError,
  findFieldError,
  SmallAction,
  SubmitButton,
} from '../parts/form.tsx'
import { SmallLink } from '../parts/links.tsx'
import { LongText } from '../parts/long-text.tsx'
import { Done, Facts, RecordPage, Section } from '../parts/page.tsx'
import { StatusLabel } from '../parts/status.tsx'
import {
  CONFIRMATION_FIELDS,
  type EditedField,
  FIELD_TYPES,
  type FormField,
  type FormTexts,
  MAIN_FIELDS,
  MESSAGE_FIELDS,
  THEME_FIELDS,
  toFormBody,
  toFormTexts,
} from './audience/form-values.ts'

const route = getRouteApi('/audience/forms/$id')

export default function AudienceFormScreen() {
  const { id } = route.useParams()
  const query = useData(read.signupForms.get(id))
  return (
    <RecordPage
      title={query.data?.title ?? 'Sign-up form'}
      list="/audience/forms"
      listName="All forms"
      query={query}
      missing="This account has no form with this id. It may have been deleted, or belong to another account."
    >
      {(form) => <FormView key={form.id} form={form} />}
    </RecordPage>
  )
}

const useFormChange = <Input,>(id: string, change: (input: Input) => PromiseLike<{ readonly data: SignupForm }>) =>
  useStore(change, () => read.signupForms.get(id), ['signupForms', 'list'])

const FormView = ({ form }: { readonly form: SignupForm }) => (
  <Stack gap="xl">
    <Overview form={form} />
    <Preview form={form} />
    <Section title="In your own page">
      <Text size="sm">
        Copy this code into your page. Copy it again when the title, the description or the fields change, because it
        contains the height of the form.
      </Text>
      <LongText label="Code to embed" text={form.embed_code} />
      <div>
        <Copy value={form.embed_code} what="code that embeds the form" />
      </div>
    </Section>
    <Section title="Settings">
      <Settings form={form} />
    </Section>
  </Stack>
)

/** Where the form is, what it does, and whether it is on. */
function Overview({ form }: { readonly form: SignupForm }) {
  const toggle = useFormChange(form.id, (_: undefined) => api.signupForms.toggle(form.id))
  const list = useData(read.contactLists.get(form.list_id))
  return (
    <Stack gap="sm">
      <StatusLabel tone={form.is_active ? 'good' : 'neutral'}>
        {form.is_active ? 'On: people can subscribe' : 'Off: the page says that there is no form'}
      </StatusLabel>
      <Facts
        facts={[
          [
            'List',
            <SmallLink key="list" to="/audience/lists/$id" params={{ id: form.list_id }}>
              <bdi>{list.data?.name ?? form.list_id}</bdi>
            </SmallLink>,
          ],
          [
            'Page',
            <Group key="page" gap="xs">
              <Anchor href={form.form_url} target="_blank" rel="noreferrer" size="sm">
                {form.form_url}
              </Anchor>
              <Copy value={form.form_url} what="URL of the form" />
            </Group>,
          ],
          [
            'Confirmation',
            list.data &&
              (list.data.double_opt_in
                ? 'New contacts get an email with a link and are subscribed once they use it.'
                : 'None: whoever enters an address is subscribed. Double opt-in is a setting of the list.'),
          ],
        ]}
      />
      <Group gap="xs">
        <SmallAction needs="developer" loading={toggle.isPending} onClick={() => toggle.mutate(undefined)}>
          {form.is_active ? 'Turn it off' : 'Turn it on'}
        </SmallAction>
        <DeleteButton
          label="Delete the form"
          size="xs"
          title="Delete this form?"
          confirm="Delete the form"
          remove={() => api.signupForms.delete(form.id)}
          refreshes={[['signupForms', 'list']]}
          leadsTo="/audience/forms"
        >
          <Text>Its page and the pages that embed it say that there is no form. Contacts that it added stay.</Text>
        </DeleteButton>
      </Group>
      <FormError error={toggle.error} />
    </Stack>
  )
}

const Preview = ({ form }: { readonly form: SignupForm }) => (
  <Section title="Preview">
    {form.is_active ? (
      <iframe
        // A new element after each change: the frame has no script that would reload it.
        key={form.updated_at}
        className="mail-frame form-frame"
        title="Preview of the form"
        sandbox=""
        src={`/subscribe/${encodeURIComponent(form.slug)}?embed=1`}
      />
    ) : (
      <Text>The form is off, so there is nothing to show. Turn it on to see it.</Text>
    )}
    <Text size="sm" c="dimmed">
      As it is saved. Nothing can be sent from the preview.
    </Text>
  </Section>
)

function Settings({ form }: { readonly form: SignupForm }) {
  const [texts, setTexts] = useState(() => toFormTexts(form))
  const [fields, setFields] = useState<readonly EditedField[]>(() =>
    form.custom_fields.map((field, key) => ({ ...field, key })),
  )
  const [isEmbeddable, setIsEmbeddable] = useState(form.theme['embed'] === true)
  const [isUnbranded, setIsUnbranded] = useState(form.theme['hide_branding'] === true)
  const [isSaved, setIsSaved] = useState(false)
  const save = useFormChange(form.id, (body: UpdateSignupFormRequest) => api.signupForms.update(form.id, body))
  const reason = useAllowed('developer')
  const change = (next: FormTexts) => {
    setTexts((before) => ({ ...before, ...next }))
    setIsSaved(false)
  }
  const submit = () => {
    setIsSaved(false)
    if (reason !== undefined) return
    const switches = { embed: isEmbeddable, hide_branding: isUnbranded }
    save.mutate(toFormBody(form, texts, switches, fields), {
      onSuccess: ({ data }) => {
        setIsSaved(true)
        setTexts(toFormTexts(data))
      },
    })
  }
  const inputs = { texts, error: save.error, isReadOnly: reason !== undefined, onChange: change }
  return (
    <Form onSubmit={submit} gap="lg" maw={860}>
      <TextInputs fields={MAIN_FIELDS} {...inputs} />
      <CustomFields fields={fields} isReadOnly={reason !== undefined} onChange={setFields} />
      <Accordion multiple variant="contained" order={3}>
        <Accordion.Item value="confirmation">
          <Accordion.Control>Confirmation and what follows</Accordion.Control>
          <Accordion.Panel>
            <TextInputs fields={CONFIRMATION_FIELDS} {...inputs} />
          </Accordion.Panel>
        </Accordion.Item>
        <Accordion.Item value="look">
          <Accordion.Control>Look</Accordion.Control>
          <Accordion.Panel>
            <Stack>
              <Text size="sm">
                Colours as in CSS: #rrggbb, rgb(), hsl() or a name. Empty ones are chosen to be readable.
              </Text>
              <SimpleGrid cols={{ base: 1, sm: 2 }}>
                <TextInputs fields={THEME_FIELDS} {...inputs} />
              </SimpleGrid>
              <Switch
                label="Hide the name of this service"
                {...bindChecked(isUnbranded, setIsUnbranded)}
                disabled={reason !== undefined}
              />
              <Switch
                label="Let other pages embed the address of the form itself"
                description="They may always embed it with the code above."
                {...bindChecked(isEmbeddable, setIsEmbeddable)}
                disabled={reason !== undefined}
              />
            </Stack>
          </Accordion.Panel>
        </Accordion.Item>
        <Accordion.Item value="texts">
          <Accordion.Control>Texts</Accordion.Control>
          <Accordion.Panel>
            <Stack>
              <Text size="sm">Empty ones have the English text of the service.</Text>
              <TextInputs fields={MESSAGE_FIELDS} {...inputs} />
            </Stack>
          </Accordion.Panel>
        </Accordion.Item>
      </Accordion>
      <FormError error={save.error} />
      <Done message={isSaved ? 'The form was saved.' : undefined} />
      <Group>
        <SubmitButton reason={reason} loading={save.isPending}>
          Save
        </SubmitButton>
      </Group>
    </Form>
  )
}

interface TextInputsProps {
  readonly fields: typeof MAIN_FIELDS
  readonly texts: FormTexts
  readonly error: unknown
  readonly isReadOnly: boolean
  onChange(texts: FormTexts): void
}

const TextInputs = ({ fields, texts, error, isReadOnly, onChange }: TextInputsProps) =>
  fields.map(({ name, label, description, placeholder, isLong }) => {
    const props = {
      label,
      ...bindText(texts[name] ?? '', (value) => onChange({ [name]: value })),
      readOnly: isReadOnly,
      error: findFieldError(error, name),
      autoComplete: 'off',
      ...(description !== undefined && { description }),
      ...(placeholder !== undefined && { placeholder }),
    }
    return isLong ? (
      <Textarea key={name} {...props} autosize minRows={2} maxRows={8} dir="auto" />
    ) : (
      <TextInput key={name} {...props} dir="auto" />
    )
  })

interface CustomFieldsProps {
  readonly fields: readonly EditedField[]
  readonly isReadOnly: boolean
  onChange(fields: readonly EditedField[]): void
}

function CustomFields({ fields, isReadOnly, onChange }: CustomFieldsProps) {
  const edit = (key: number, next: Partial<FormField>) =>
    onChange(fields.map((field) => (field.key === key ? { ...field, ...next } : field)))
  const add = () => {
    const key = Math.max(-1, ...fields.map((field) => field.key)) + 1
    onChange([...fields, { key, name: '', label: '', type: 'text', required: false }])
  }
  return (
    <Section title="Fields besides the address" order={3} size="h5">
      {fields.length === 0 && <Text size="sm">None: the form asks for the address only.</Text>}
      {fields.map(({ key, name, label, type, required }, index) => (
        <Paper key={key} withBorder p="sm" component="fieldset" style={{ margin: 0, minWidth: 0 }}>
          <legend>Field {index + 1}</legend>
          <Stack gap="xs">
            <SimpleGrid cols={{ base: 1, sm: 3 }}>
              <TextInput
                label="Label"
                {...bindText(label, (value) => edit(key, { label: value }))}
                readOnly={isReadOnly}
                maxLength={200}
                required
                dir="auto"
              />
              <TextInput
                label="Name in the metadata"
                placeholder="first_name"
                {...bindText(name, (value) => edit(key, { name: value }))}
                readOnly={isReadOnly}
                maxLength={64}
                required
                autoCapitalize="none"
                spellCheck={false}
              />
              <NativeSelect
                label="Type"
                {...bindText(type, (value) => edit(key, { type: value as FormField['type'] }))}
                disabled={isReadOnly}
                data={[...FIELD_TYPES]}
              />
            </SimpleGrid>
            <Group justify="space-between">
              <Checkbox
                label="Must be filled in"
                {...bindChecked(required, (checked) => edit(key, { required: checked }))}
                disabled={isReadOnly}
              />
              {!isReadOnly && (
                <Button
                  size="xs"
                  variant="default"
                  onClick={() => onChange(fields.filter((field) => field.key !== key))}
                  aria-label={`Remove field ${index + 1}`}
                >
                  Remove
                </Button>
              )}
            </Group>
          </Stack>
        </Paper>
      ))}
      {!isReadOnly && (
        <div>
          <Button size="xs" variant="default" onClick={add}>
            Add a field
          </Button>
        </div>
      )}
    </Section>
  )
}
