"""Who owns which field of an object, and server-side apply.

    elements    one step of a field path, as FieldsV1 writes it
    paths       sets of field paths
    shapes      what a schema says of maps and lists: who may own what
    compare     which fields of an object another one changes
    merging     one object over another; an object without some of its fields
    configs     what server-side apply reads of a configuration: its fields, and what is wrong with it
    entries     metadata.managedFields
    blanks      what an object is before anybody writes it
    resets      what a write may say but never owns
    track       an ordinary write: create, replace, patch
    apply       server-side apply

No I/O and no clock. Nothing that is passed in is changed, and results share parts with it.
"""
