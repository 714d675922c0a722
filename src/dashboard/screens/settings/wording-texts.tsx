/** @module The texts of the wording in one language. */
import { Fieldset, Stack, Textarea, TextInput } from '@mantine/core'
import type { AccountWording } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { ActionButton, bindText, Form, FormError, findFieldError, SaveRow } from '../../parts/form.tsx'
import {
  hasLines,
  LANGUAGE_NAMES,
  type Language,
  listFields,
  PLACE_NAMES,
  PLACES,
  type TextName,
} from './wording-fields.ts'

/** What was typed in the fields of a language and not saved yet. */
export type Values = { readonly [Name in TextName]?: string }

interface WordingTextsProps {
  readonly wording: AccountWording
  readonly language: Language
  readonly roleReason: string | undefined
  readonly changes: Values
  onChange(changes: Values): void
}

export function WordingTexts({ wording, language, roleReason, changes, onChange }: WordingTextsProps) {
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
