/** @module The account's own name, logo and texts for confirmation mails, confirmation pages and unsubscribe pages. */
import { Alert, Code, Fieldset, FileInput, NativeSelect, Stack, Text, Textarea, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { AccountWording } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useChange, useData } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { ActionButton, bindText, Form, FormError, findFieldError, LeaveGuard, SaveRow } from '../../parts/form.tsx'
import { toOptions } from '../../parts/format.ts'
import { QueryView, Section } from '../../parts/page.tsx'
import { SettingsPage } from './frame.tsx'
import {
  hasLines,
  LANGUAGE_NAMES,
  type Language,
  listFields,
  PLACE_NAMES,
  PLACES,
  type PlaceName,
  type TextName,
} from './wording-fields.ts'

interface WordingPreviewProps {
  readonly language: Language
  /** Changes when the wording was read again. */
  readonly version: number
}

function WordingPreview({ language, version }: WordingPreviewProps) {
  const [place, setPlace] = useState<PlaceName>('mail')
  const src = `/app/wording/${place}?language=${language}&version=${version}`
  return (
    <Stack gap="xs">
      <NativeSelect
        maw={260}
        label="Mail or page"
        {...bindText(place, (value) => setPlace(value as PlaceName))}
        data={toOptions(PLACE_NAMES, (name) => PLACES[name].label)}
      />
      <iframe
        // A new element: changing the address of a frame would add to the history.
        key={src}
        className="mail-frame"
        title="Preview"
        sandbox=""
        referrerPolicy="no-referrer"
        src={src}
      />
      <Text size="sm" c="dimmed">
        As it is saved, for a list “Customers”. Links and buttons do not work here.
      </Text>
    </Stack>
  )
}

const WORDING = ['account', 'getWording'] as const

export default function WordingScreen() {
  const query = useData(read.account.getWording())
  const [language, setLanguage] = useState<Language>('en')
  // Of each language, so that changing the language loses nothing.
  const [drafts, setDrafts] = useState<{ readonly [L in Language]?: Values }>({})
  const roleReason = useAllowed('admin')
  return (
    <SettingsPage title="Wording">
      <Text size="sm" maw={640}>
        What people read when they confirm a subscription or unsubscribe. What you leave empty is ours, in their
        language. Buttons, links and what we say about the address, the list and the sender always stay.
      </Text>
      {roleReason !== undefined && <Alert color="gray">{roleReason}</Alert>}
      <QueryView query={query}>
        {(data) => (
          <>
            <Section title="Name and logo">
              <NameForm wording={data} roleReason={roleReason} />
              <Logo wording={data} roleReason={roleReason} />
            </Section>
            <Section title="Texts">
              <NativeSelect
                maw={260}
                label="Language"
                description="The reader's language decides which texts are shown."
                {...bindText(language, (value) => setLanguage(value as Language))}
                data={Object.entries(LANGUAGE_NAMES).map(([value, label]) => ({
                  value,
                  label: data.texts[value as Language] ? `${label} (own texts)` : label,
                }))}
              />
              <Text size="sm" maw={640}>
                <Code>{'{{name}}'}</Code> is the name above or the domain of the sender, <Code>{'{{list}}'}</Code> the
                contact list; it cannot be used when unsubscribing.
              </Text>
              <WordingTexts
                key={language}
                wording={data}
                language={language}
                roleReason={roleReason}
                changes={drafts[language] ?? {}}
                onChange={(changes) => setDrafts((before) => ({ ...before, [language]: changes }))}
              />
            </Section>
            <Section title="Preview">
              <WordingPreview language={language} version={query.dataUpdatedAt} />
            </Section>
          </>
        )}
      </QueryView>
      <LeaveGuard
        text="The texts that you changed are lost."
        isDirty={() => Object.values(drafts).some((changes) => Object.keys(changes).length > 0)}
      />
    </SettingsPage>
  )
}

interface PartProps {
  readonly wording: AccountWording
  readonly roleReason: string | undefined
}

function NameForm({ wording, roleReason }: PartProps) {
  const [typed, setTyped] = useState<string>()
  const save = useChange((name: string) => api.account.updateWording({ name }), WORDING)
  const submit = () => {
    if (typed !== undefined && roleReason === undefined)
      save.mutate(typed, { onSuccess: () => setTyped((now) => (now === typed ? undefined : now)) })
  }
  return (
    <Form onSubmit={submit} aria-label="Name" maw={560} align="flex-start">
      <TextInput
        w="100%"
        label="Name"
        description="The name of the sender, as people know it. The domain is shown after it."
        value={typed ?? wording.name ?? ''}
        onChange={(event) => {
          save.reset()
          setTyped(event.currentTarget.value)
        }}
        error={findFieldError(save.error, 'name')}
        readOnly={roleReason !== undefined}
        maxLength={100}
        dir="auto"
        autoComplete="off"
      />
      <FormError error={save.error} fields={['name']} />
      <SaveRow save={save} isUnchanged={typed === undefined} reason={roleReason} label="Save the name" />
    </Form>
  )
}

function Logo({ wording: { logo, name }, roleReason }: PartProps) {
  const upload = useChange((file: File) => api.account.setLogo(toTypedBlob(file)), WORDING)
  const remove = useChange(() => api.account.deleteLogo(), WORDING)
  return (
    <Stack maw={560} align="flex-start">
      {logo && (
        <img
          className="logo-preview"
          src={new URL(logo.url).pathname}
          width={logo.width / 2}
          height={logo.height / 2}
          alt={name ?? 'Logo'}
        />
      )}
      <FileInput
        w="100%"
        label="Logo"
        description="PNG, JPEG or WebP, at most 100 KiB. It is shown on white, at most 240 by 96 pixels large."
        placeholder={logo ? 'Choose another file' : 'Choose a file'}
        accept="image/png,image/jpeg,image/webp"
        value={null}
        disabled={roleReason !== undefined || upload.isPending}
        onChange={(file) => file && upload.mutate(file)}
      />
      <FormError error={upload.error ?? remove.error} />
      {logo && (
        <ActionButton variant="default" reason={roleReason} onClick={() => remove.mutate(undefined)}>
          Remove the logo
        </ActionButton>
      )}
      <Text component="span" role="status" size="sm">
        {upload.isSuccess && logo && 'The logo is saved.'}
      </Text>
    </Stack>
  )
}

/** The server looks at the content only. */
const toTypedBlob = (file: File): Blob => new Blob([file], { type: 'application/octet-stream' })

/** What was typed in the fields of a language and not saved yet. */
type Values = { readonly [Name in TextName]?: string }

interface WordingTextsProps {
  readonly wording: AccountWording
  readonly language: Language
  readonly roleReason: string | undefined
  readonly changes: Values
  onChange(changes: Values): void
}

function WordingTexts({ wording, language, roleReason, changes, onChange }: WordingTextsProps) {
  const save = useChange(
    (texts: Values | null) => api.account.updateWording({ texts: { [language]: texts } }),
    ['account', 'getWording'],
  )
  const own: Values = wording.texts[language] ?? {}
  const values = { ...own, ...changes }
  const isUnchanged = Object.keys(changes).length === 0
  const mutate = (texts: Values | null) => save.mutate(texts, { onSuccess: () => onChange({}) })
  const submit = () => {
    if (!isUnchanged && roleReason === undefined) mutate(values)
  }
  const toFieldName = (name: TextName) => `texts.${language}.${name}`
  const allFields = PLACE_NAMES.flatMap((place) => listFields(place).map(([name]) => toFieldName(name)))
  const toProps = (name: TextName, label: string) => ({
    label,
    ...bindText(values[name] ?? '', (value) => {
      save.reset()
      onChange({ ...changes, [name]: value })
    }),
    placeholder: wording.defaults[language]?.[name] ?? '',
    error: findFieldError(save.error, toFieldName(name)),
    readOnly: roleReason !== undefined,
    lang: language,
    dir: 'auto',
    autoComplete: 'off',
  })
  return (
    <Form onSubmit={submit} aria-label={`Texts in ${LANGUAGE_NAMES[language]}`} maw={640} align="stretch">
      {PLACE_NAMES.map((place) => (
        <Fieldset key={place} legend={PLACES[place].label}>
          <Stack gap="sm">
            {listFields(place).map(([name, label]) =>
              hasLines(name) ? (
                <Textarea key={name} {...toProps(name, label)} autosize minRows={2} maxRows={8} />
              ) : (
                <TextInput key={name} {...toProps(name, label)} />
              ),
            )}
          </Stack>
        </Fieldset>
      ))}
      <FormError error={save.error} fields={allFields} />
      <SaveRow save={save} isUnchanged={isUnchanged} reason={roleReason} label="Save the texts">
        {Object.keys(own).length > 0 && (
          <ActionButton variant="default" reason={roleReason} onClick={() => mutate(null)}>
            Use ours in {LANGUAGE_NAMES[language]}
          </ActionButton>
        )}
      </SaveRow>
    </Form>
  )
}
