//! Opening a view of a host by its name, schema, codec and options.

use crate::cache::{HostCache, HostView};
use crate::codec::{HostCodec, Objects};
use crate::errors::HostError;
use crate::names::{NameError, check_schema_name, check_view_name};
use crate::options::CallOptions;
use crate::schemas::ViewForm;
use crate::value::HostValue;

/// A view to open.
#[derive(Clone, Debug)]
pub struct ViewOptions {
    /// Its name.
    pub name: String,
    /// The name and the number of the schema of its values.
    pub schema: (String, u32),
    /// How they are written.
    pub codec: HostCodec,
    /// What hits do with the bytes.
    pub objects: Objects,
    /// The lifetime of the values, and their tags.
    pub defaults: CallOptions,
}

impl HostCache {
    /// Opens a view. Values of nothing have the `negative_ttl`, if the codec is one that every language reads.
    ///
    /// # Errors
    /// Of class [`Closed`](crate::ErrorClass::Closed) after [`HostCache::close`]; of class [`Option`](crate::ErrorClass::Option), if a name is wrong, or the name has another schema or codec already, or a
    /// private view has a `negative_ttl`.
    pub fn open_view<O, X>(&self, options: ViewOptions) -> Result<HostView<O, X>, HostError>
    where
        O: Send + Sync + 'static,
        X: Send + Sync + 'static,
    {
        let ViewOptions { name, schema: (schema, number), codec, objects, defaults } = options;
        self.check_open()?;
        check_view_name(&name)?;
        check_schema_name(&schema)?;
        if codec.is_private() && defaults.has_negative_ttl {
            return Err(
                NameError("negative_ttl needs a view whose values every language reads".to_owned()).into()
            );
        }
        self.claim_view(&name, ViewForm::new(&schema, number, &codec))?;
        let own = defaults.clone();
        let view = self.view(move |cache| {
            let view = codec.view(cache, &name, (&schema, number), objects).with_policy(defaults.policy);
            let view = defaults
                .tags
                .iter()
                .fold(view, |view: larder::View<[u8], HostValue<O>, X>, tag| view.with_tag(tag));
            if codec.is_private() { view } else { view.with_negative(HostCodec::is_nil) }
        });
        Ok(view?.with_defaults(own))
    }
}
