/** @module The sign-up forms of the account; and one of them: its settings, a preview, the code that embeds it elsewhere. */

import { Accordion, Anchor, Button, Group, Input, Paper, SimpleGrid, Stack, Text } from '@mantine/core'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { SignupForm, UpdateSignupFormRequest } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { RunButton } from '../parts/buttons.tsx'
import { Copy } from '../parts/copy.tsx'
import { DeleteButton, FormButton } from '../parts/dialog.tsx'
import { FieldForm } from '../parts/field-form.tsx'
import { FieldInput } from '../parts/field-input.tsx'
import type { Field, Values } from '../parts/fields.ts'
import { NameLink, TextLink } from '../parts/links.tsx'
import { ListScreen, useList } from '../parts/list.tsx'
import { LongText } from '../parts/long-text.tsx'
import { Facts, RecordPage, Section } from '../parts/page.tsx'
import { StatusLabel } from '../parts/status.tsx'
import { type Column, column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import FIELDS from './audience/form-fields.json'
import { AudienceNavigation } from './audience/parts.tsx'
import { useAllLists } from './queries.ts'

export default function AudienceFormsScreen() {
  const list = useList({ read: read.signupForms.list })
  const lists = useAllLists()
  const navigate = useNavigate()
  const names = new Map(lists.data?.map(({ id, name }) => [id, name]))
  const columns: readonly Column<SignupForm>[] = [
    column('Form', {}, ({ id, title }) => <NameLink to="/audience/forms/$id" params={{ id }} name={title} />),
    column('List', { width: '30%', phone: 'bare' }, ({ list_id: id }) => <bdi>{names.get(id) ?? '…'}</bdi>),
    column('Status', { width: '7rem', phone: 'bare' }, (form) => <FormStatus form={form} />),
    column('Created', { width: '9rem', phone: 'aside' }, ({ created_at: at }) => <Time iso={at} />),
  ]
  return (
    <ListScreen
      title="Sign-up forms"
      list={list}
      columns={columns}
      noun="form"
      action={
        <FormButton
          label="Create a form"
          needs="developer"
          confirm="Create the form"
          error={lists.error}
          fields={[
            {
              name: 'list_id',
              label: 'List',
              kind: 'choice',
              hint: 'A list has at most one form. The page is open to everybody as soon as it is created.',
              options: [
                { value: '', label: lists.data?.length === 0 ? 'There is no list yet' : 'Choose a list' },
                ...(lists.data ?? []).map(({ id, name }) => ({ value: id, label: name })),
              ],
              isRequired: true,
            },
            { name: 'title', label: 'Title', hint: 'The heading of the page.', isRequired: true },
          ]}
          refreshes={['signupForms']}
          run={api.signupForms.create}
          onDone={({ data }) => navigate({ to: '/audience/forms/$id', params: { id: data.id } })}
        />
      }
      navigation={<AudienceNavigation />}
      nothing={{
        title: 'Your sign-up forms will appear here',
        text: 'A form is a public page on which people subscribe to one of your lists. You can link to it, or embed it in a page of your own.',
      }}
    />
  )
}

const route = getRouteApi('/audience/forms/$id')

export function AudienceFormScreen() {
  const { id } = route.useParams()
  const query = useData(read.signupForms.get(id))
  return (
    <RecordPage
      title={query.data?.title ?? 'Sign-up form'}
      list={{ to: '/audience/forms' }}
      listName="All forms"
      query={query}
      status={query.data && <FormStatus form={query.data} />}
      action={query.data && <Actions form={query.data} />}
    >
      {(form) => <FormView key={form.id} form={form} />}
    </RecordPage>
  )
}

type FormField = SignupForm['custom_fields'][number]

/** The fields of a form by where they are shown, and those that one of its own fields has. */
const { parts, ...FORM } = FIELDS as unknown as Readonly<Record<keyof typeof FIELDS, readonly Field[]>>
const PARTS = parts as readonly Field<'label' | 'name' | 'type' | 'required'>[]

const FormView = ({ form }: { readonly form: SignupForm }) => (
  <>
    <Overview form={form} />
    <Preview form={form} />
    <Section
      title="In your own page"
      description="Copy it again when title, description or fields change: it contains the height of the form."
      action={<Copy value={form.embed_code} what="code that embeds the form" />}
    >
      <LongText label="Code to embed" text={form.embed_code} />
    </Section>
    <Section title="Settings">
      <Settings form={form} />
    </Section>
  </>
)

/** Where the form is, what it does, and whether it is on. */
function Overview({ form }: { readonly form: SignupForm }) {
  const list = useData(read.contactLists.get(form.list_id))
  return (
    <Facts
      facts={[
        [
          'List',
          <TextLink key="list" to="/audience/lists/$id" params={{ id: form.list_id }}>
            <bdi>{list.data?.name ?? form.list_id}</bdi>
          </TextLink>,
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
              ? 'New contacts are subscribed once they use the link in an email.'
              : 'None. Double opt-in is a setting of the list.'),
        ],
      ]}
    />
  )
}

const Actions = ({ form }: { readonly form: SignupForm }) => (
  <>
    <DeleteButton
      noun="form"
      remove={() => api.signupForms.delete(form.id)}
      refreshes={[['signupForms', 'list']]}
      leadsTo={{ to: '/audience/forms' }}
    >
      Its page and the pages that embed it say that there is no form. Contacts that it added stay.
    </DeleteButton>
    <RunButton
      label={form.is_active ? 'Deactivate' : 'Activate'}
      variant="default"
      needs="developer"
      refreshes={['signupForms']}
      run={() => api.signupForms.toggle(form.id)}
    />
  </>
)

const FormStatus = ({ form: { is_active: isActive } }: { readonly form: SignupForm }) => (
  <StatusLabel
    tone={isActive ? 'good' : 'neutral'}
    title={isActive ? 'People can subscribe.' : 'The page says that there is no form.'}
  >
    {isActive ? 'Active' : 'Off'}
  </StatusLabel>
)

const Preview = ({ form }: { readonly form: SignupForm }) => (
  <Section title="Preview" description="As it is saved. Nothing can be sent from it.">
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
      <Text>The form is off, so there is nothing to show. Activate it to see it.</Text>
    )}
  </Section>
)

const Settings = ({ form }: { readonly form: SignupForm }) => (
  <FieldForm
    gap="lg"
    maw={860}
    needs="developer"
    done="The form was saved."
    stored={form}
    refreshes={['signupForms']}
    run={(changes: Values) => api.signupForms.update(form.id, toFormBody(form, changes))}
    fields={[...FORM.main, CUSTOM_FIELDS, ...FORM.confirmation, ...FORM.theme, ...FORM.switches, ...FORM.messages]}
    hidesFields
    layout={({ show }) => (
      <>
        {show(FORM.main)}
        {show([CUSTOM_FIELDS])}
        <Accordion multiple variant="contained" order={3} w="100%">
          <Part name="Confirmation and what follows">{show(FORM.confirmation)}</Part>
          <Part name="Look">
            <Text size="sm">
              Colours as in CSS: #rrggbb, rgb(), hsl() or a name. Empty ones are chosen to be readable.
            </Text>
            <SimpleGrid cols={{ base: 1, sm: 2 }}>{show(FORM.theme)}</SimpleGrid>
            {show(FORM.switches)}
          </Part>
          <Part name="Texts">
            <Text size="sm">Empty ones have the English text of the service.</Text>
            {show(FORM.messages)}
          </Part>
        </Accordion>
      </>
    )}
  />
)

const Part = ({ name, children }: { readonly name: string; readonly children: ReactNode }) => (
  <Accordion.Item value={name}>
    <Accordion.Control>{name}</Accordion.Control>
    <Accordion.Panel>
      <Stack>{children}</Stack>
    </Accordion.Panel>
  </Accordion.Item>
)

const CUSTOM_FIELDS: Field = {
  name: 'custom_fields',
  label: 'Fields besides the address',
  render: ({ value, error, isReadOnly, set }) => (
    <>
      <CustomFields fields={value as readonly FormField[]} isReadOnly={isReadOnly} onChange={set} />
      <Input.Error>{error}</Input.Error>
    </>
  ),
}

interface CustomFieldsProps {
  readonly fields: readonly FormField[]
  readonly isReadOnly: boolean
  onChange(fields: readonly FormField[]): void
}

function CustomFields({ fields, isReadOnly, onChange }: CustomFieldsProps) {
  const edit = (at: number, next: Partial<FormField>) =>
    onChange(fields.map((field, index) => (index === at ? { ...field, ...next } : field)))
  return (
    <Section title="Fields besides the address" order={3}>
      {fields.length === 0 && <Text size="sm">None: the form asks for the address only.</Text>}
      {fields.map((field, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: names change while they are typed
        <Paper key={index} withBorder p="sm" component="fieldset" style={{ margin: 0, minWidth: 0 }}>
          <legend>Field {index + 1}</legend>
          <Stack gap="xs">
            <SimpleGrid cols={{ base: 1, sm: 3 }}>
              {PARTS.map((part) => (
                <FieldInput
                  key={part.name}
                  field={part}
                  isFirst={false}
                  value={field[part.name]}
                  error={undefined}
                  isReadOnly={isReadOnly}
                  set={(value) => edit(index, { [part.name]: value })}
                />
              ))}
            </SimpleGrid>
            {!isReadOnly && (
              <Group>
                <Button
                  size="xs"
                  variant="default"
                  onClick={() => onChange(fields.filter((other) => other !== field))}
                  aria-label={`Remove field ${index + 1}`}
                >
                  Remove
                </Button>
              </Group>
            )}
          </Stack>
        </Paper>
      ))}
      {!isReadOnly && (
        <div>
          <Button
            size="xs"
            variant="default"
            onClick={() => onChange([...fields, { name: '', label: '', type: 'text', required: false }])}
          >
            Add a field
          </Button>
        </div>
      )}
    </Section>
  )
}

/** The body of a change. Theme and messages are replaced as a whole, so what was not changed is kept from the form. */
function toFormBody(form: SignupForm, changes: Values): UpdateSignupFormRequest {
  const body: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(changes)) {
    const [group = '', key] = name.split('.')
    const before = body[group] ?? (form as Values)[group]
    body[group] = key === undefined ? value : { ...(before as object), [key]: value }
  }
  return body
}
